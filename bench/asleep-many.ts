/** Many VMs that sleep: one that was saved, and copies of its saved state beside the disks of the others. */
import { chmodSync, constants, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { bareRequest, makeBare } from '../lab/inside/bare.ts'
import { asleep, sleeper } from '../lab/inside/sleepers.ts'
import { storeDesired } from '../src/commands/vm/store-desired.ts'
import { parseSavedMetadata, renderSavedMetadata } from '../src/core/saved/saved-metadata.ts'
import { ok } from '../src/lib/result.ts'
import { diskIdentity } from '../src/host/saved/prepare-saved.ts'
import { allVms, fillStore, inStore } from './many-vms.ts'
import { progress } from './measurement.ts'
import type { SavedMetadata } from '../src/core/saved/saved-metadata.ts'
import type { Result } from '../src/lib/result.ts'
import type { Desired } from '../src/core/desired.ts'
import type { VmRecord } from '../src/core/vm/record.ts'
import type { VmId } from '../src/core/ids.ts'
import type { CommandContext } from '../src/commands/context.ts'

const DISKS = '/var/lib/vmhostd/pool/disks'
/** Mode of a published directory; the VM's monitor passes through it and reads. */
const PASSAGE_MODE = 0o711
/** A guest that touches little memory, because the file system takes long to copy a file of many pieces. */
const SLEEPER = { monitor: 'qemu', sleepAfterIdleSeconds: 1 } as const

/** VMs that are still stopped but for the first, whose saved state the others will have. */
export type Stopped = { readonly template: string; readonly others: readonly string[] }

/** Makes `count` VMs with networks: one that sleeps, and the others stopped. */
export async function makeStopped(prefix: string, count: number): Promise<Stopped> {
  const template = sleeper(`${prefix}-template`, 250)
  await makeBare(template, SLEEPER)
  await asleep(template.id)
  const others = await fillStore(prefix, count - 1, (index) => ({
    ...bareRequest(template, { ...SLEEPER, power: 'stopped' }),
    network: { ipv6_address: `2001:db8:6::${(index + 1).toString(16)}` },
  }))
  progress(`${count - 1} VMs are made, stopped`)
  return { template: template.id, others }
}

/** Has all of them sleep. Returns their ids. */
export async function putToSleep({ template, others }: Stopped): Promise<readonly string[]> {
  const text = readFileSync(`${DISKS}/${template}/saved/metadata.json`, 'utf8')
  const metadata = parseSavedMetadata(text)
  if (!metadata.ok) throw new Error(metadata.error.because)
  await inStore(async (context) => {
    for (const id of others as readonly VmId[]) {
      await placeSaved(template, id, metadata.value)
      sleepOnRecord(context, id)
    }
  })
  const ids = [template, ...others]
  await allVms('sleeping', ids.length, ({ state }) => state === 'sleeping')
  progress(`${ids.length} VMs sleep`)
  return ids
}

/** Records what the daemon records for a VM that fell asleep: otherwise the unreached power would wake it. */
function sleepOnRecord(context: CommandContext, id: VmId): void {
  // Not by `setPower`, which would also ask for a wake.
  const decide = ({ desired }: VmRecord): Result<Desired, never> => ok({ ...desired, power: 'running' })
  const set = storeDesired(context, id, { reason: 'bench', decide })
  if (!set.ok) throw new Error(`${id}: ${JSON.stringify(set.error)}`)
  const { observed, generations } = set.value.record
  context.store.vms.recordProgress(id, {
    observed: { ...observed, state: 'running' },
    observedGeneration: generations.desired,
    nowMs: Date.now(),
  })
}

/** Places the state that the daemon would have published if this VM had been saved. */
async function placeSaved(from: string, id: VmId, metadata: SavedMetadata): Promise<void> {
  const folder = `${DISKS}/${id}/saved`
  mkdirSync(folder)
  // The umask reduces the mode that mkdir sets.
  chmodSync(folder, PASSAGE_MODE)
  copyFileSync(`${DISKS}/${from}/saved/memory`, `${folder}/memory`, constants.COPYFILE_FICLONE_FORCE)
  const disk = await diskIdentity(`${DISKS}/${id}/disk.raw`)
  if (disk === undefined) throw new Error(`${id} has no disk`)
  writeFileSync(`${folder}/metadata.json`, renderSavedMetadata({ ...metadata, vmId: id, disk }))
}
