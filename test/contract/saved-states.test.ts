import type { UserId, VmId } from '../../src/core/ids.ts'
import { FakeSavedStates } from '../fakes/fake-saved-states.ts'
import { SavedFiles } from '../fakes/saved-files.ts'
import { savedMovesContract } from './saved-moves.contract.ts'
import { savedStatesContract } from './saved-states.contract.ts'
import type { SavedStatesStage } from './saved-states.contract.ts'

async function stage(): Promise<SavedStatesStage> {
  const files = new SavedFiles()
  const writes = new Map<VmId, number>()
  const states = new FakeSavedStates({ files, diskOf: (id) => writes.get(id) })
  const published = (id: VmId): string => states.paths(id).published
  return {
    states,
    userId: 200_001 as UserId,
    makeDisk: (id) => void writes.set(id, 1),
    save: (id) =>
      files.write(states.paths(id).writing, { id, memory: { life: 1, progress: 1 }, whole: true }),
    isReadable: (id) => files.at(published(id)) !== undefined,
    writeDisk: (id) => void writes.set(id, (writes.get(id) ?? 0) + 1),
    damage: (id) => files.damage(published(id)),
    loseMemory: (id) => files.remove(published(id)),
    reopen: () => states,
    contentOf: (id) => Buffer.from(JSON.stringify(files.at(published(id))?.memory)),
    setInSight: (inSight) => states.setInSight(inSight),
  }
}

savedStatesContract('fake saved states', stage)
savedMovesContract('fake saved states', stage)
