import { Restoring } from '../src/store/backup/restoring.ts'
import { range } from './store-stage.ts'
import type { StoreStage } from './store-stage.ts'

/** Returns the restore of a file into the state directory of a stage. */
export const restoringOf = ({ directory }: StoreStage, file: string, locks = false): Restoring =>
  new Restoring(file, { stateDirectory: directory, directory: `${directory}/restore.new`, locks }, range)
