/** Many VMs that sleep: one that was saved, and copies of its saved state beside the disks of the others. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { call } from '../lab/inside/controller.ts'
import { mainPid, sh } from '../lab/inside/shell.ts'
import { asleep, makeSleeper, sleeper, sleeperRequest } from '../lab/inside/sleepers.ts'
import { until } from '../lab/inside/until.ts'
import { storeDesired } from '../src/commands/vm/store-desired.ts'
import { parseSavedMetadata, renderSavedMetadata } from '../src/core/saved/saved-metadata.ts'
import { ok } from '../src/lib/result.ts'
import { diskIdentity } from '../src/host/saved/prepare-saved.ts'
import { fillStore, inStore } from './many-vms.ts'
import { progress } from './measurement.ts'
import { cpuPercent } from './process-cpu.ts'
import type { SavedMetadata } from '../src/core/saved/saved-metadata.ts'
import type { Result } from '../src/lib/result.ts'
import type { Desired } from '../src/core/desired.ts'
import type { VmRecord } from '../src/core/vm/record.ts'
import type { VmId } from '../src/core/ids.ts'
import type { Vm } from '../lab/inside/controller.ts'

const DISKS = '/var/lib/vmhostd/pool/disks'
/** Mode of a published directory; the VM's monitor passes through it and reads. */
const PASSAGE_MODE = 0o711
const SETTLE_BOUND_MS = 300_000

export type AsleepMany = {
  readonly ids: readonly string[]
  /** The daemon's processor time while the same VMs were stopped. */
  readonly stoppedPercent: number
}

/** Makes `count` stopped VMs with networks, measures, and then has all of them sleep. */
export async function placeAsleep(
  prefix: string,
  count: number,
  measureSeconds: number,
): Promise<AsleepMany> {
  const template = sleeper(`${prefix}-template`, 250)
  await makeSleeper(template)
  await asleep(template.id)
  const others = await fillStore(prefix, count - 1, (index) => ({
    ...sleeperRequest(template, { power: 'stopped' }),
    network: { ipv6_address: `2001:db8:6::${(index + 1).toString(16)}` },
  }))
  progress(`${count - 1} VMs are made, stopped`)
  const stoppedPercent = await cpuPercent(await mainPid('vmhostd'), measureSeconds)
  const text = readFileSync(`${DISKS}/${template.id}/saved/metadata.json`, 'utf8')
  const metadata = parseSavedMetadata(text)
  if (!metadata.ok) throw new Error(metadata.error.because)
  await inStore(async (context) => {
    for (const id of others) {
      await placeSaved(template.id, id as VmId, metadata.value)
      // Not by `setPower`, which would also ask for a wake.
      const decide = ({ desired }: VmRecord): Result<Desired, never> => ok({ ...desired, power: 'running' })
      const set = storeDesired(context, id as VmId, { reason: 'bench', decide })
      if (!set.ok) throw new Error(`${id}: ${JSON.stringify(set.error)}`)
      const { observed, generations } = set.value.record
      // Record what the daemon records for a VM that fell asleep: otherwise the unreached power would wake it.
      context.store.vms.recordProgress(id as VmId, {
        observed: { ...observed, state: 'running' },
        observedGeneration: generations.desired,
        nowMs: Date.now(),
      })
    }
  })
  await until(`${count} VMs sleep`, () => allAsleep(count), SETTLE_BOUND_MS)
  progress(`${count} VMs sleep`)
  return { ids: [template.id, ...others], stoppedPercent }
}

/** Places the state that the daemon would have published if this VM had been saved. */
async function placeSaved(from: string, id: VmId, metadata: SavedMetadata): Promise<void> {
  const folder = `${DISKS}/${id}/saved`
  mkdirSync(folder)
  await sh('chmod', PASSAGE_MODE.toString(8), folder)
  await sh('cp', '--reflink=auto', `${DISKS}/${from}/saved/memory`, `${folder}/memory`)
  const disk = await diskIdentity(`${DISKS}/${id}/disk.raw`)
  if (disk === undefined) throw new Error(`${id} has no disk`)
  writeFileSync(`${folder}/metadata.json`, renderSavedMetadata({ ...metadata, vmId: id, disk }))
}

async function allAsleep(count: number): Promise<true | undefined> {
  const { items } = (await call('GET', '/v1/vms?limit=1000')).body as unknown as { items: readonly Vm[] }
  const sleeping = items.filter(({ observed }) => observed.state === 'sleeping')
  return sleeping.length === count ? true : undefined
}
