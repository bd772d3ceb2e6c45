import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { availableMibIn } from '../../host/figures/host-features.ts'
import { fact } from './fact.ts'
import type { Config } from '../../config/config.ts'
import type { HostFacts } from '../../core/doctor/host-facts.ts'

/** Reads how much room the directories of this host have. */
export async function readRoom({
  stateDirectory,
  runDirectory,
}: Pick<Config, 'stateDirectory' | 'runDirectory'>): Promise<HostFacts['room']> {
  // A boot empties the file system of this directory, and the start of the daemon makes it there again.
  const ofRun = existsSync(runDirectory) ? runDirectory : dirname(runDirectory)
  return [
    {
      what: 'state',
      directory: stateDirectory,
      availableMib: await fact(() => availableMibIn(stateDirectory)),
    },
    { what: 'run', directory: runDirectory, availableMib: await fact(() => availableMibIn(ofRun)) },
  ]
}
