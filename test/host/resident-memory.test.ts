/** Memory that a running guest frees goes back to the host, and `/v1/sync` shows it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call, remove } from '../../lab/inside/controller.ts'
import { makeBare } from '../../lab/inside/bare.ts'
import { sh } from '../../lab/inside/shell.ts'
import { makeSleeper, sleeper } from '../../lab/inside/sleepers.ts'
import { typeInto } from '../../lab/inside/type-into.ts'
import { until } from '../../lab/inside/until.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { skipWithoutFirecracker } from './with-firecracker.ts'

const MEMORY_MIB = 512
const FILLED_MIB = 160
/** Memory that the guest may use or keep besides: caches, and free pieces that are too small to be reported. */
const SLACK_MIB = 40
const BOUND_MS = 60_000

sharedHost()

type Sync = {
  readonly capacity: {
    readonly memory: { readonly resident_mib?: number; readonly not_resident_mib?: number }
  }
  readonly vms: readonly { readonly id: string; readonly resident_mib?: number }[]
}

const sync = async (): Promise<Sync> => (await call('GET', '/v1/sync')).body as unknown as Sync

/** Waits until the memory of the VM is as a test wants it; returns it. */
const resident = (what: string, id: string, isSo: (mib: number) => boolean): Promise<number> =>
  until(
    what,
    async () => {
      const mib = (await sync()).vms.find((vm) => vm.id === id)?.resident_mib
      return mib !== undefined && isSo(mib) ? mib : undefined
    },
    BOUND_MS,
  )

test('memory that a guest used and freed goes back to the host', async (t) => {
  const one = sleeper('filled', 61)
  await makeSleeper(one, { memoryMib: MEMORY_MIB, sleepAfterIdleSeconds: 0 })
  const before = await resident('the guest is measured', one.id, () => true)
  assert.ok(before < MEMORY_MIB - FILLED_MIB, `${before} MiB`)
  await typeInto(one.id, `dd if=/dev/zero of=/tmp/filled bs=1M count=${FILLED_MIB}`)
  const filled = await resident(
    'the guest fills memory',
    one.id,
    (mib) => mib >= before + FILLED_MIB - SLACK_MIB,
  )
  const { memory } = (await sync()).capacity
  assert.ok((memory.resident_mib ?? 0) >= filled)
  assert.ok((memory.not_resident_mib ?? 0) >= MEMORY_MIB - filled)
  await typeInto(one.id, 'rm /tmp/filled')
  const freed = await resident(
    'the guest gives memory back',
    one.id,
    (mib) => mib <= filled - FILLED_MIB + SLACK_MIB,
  )
  assert.match(
    await sh('vmhostctl', 'sync'),
    /^ {2}resident +[\d.]+ [MG]iB of the [\d.]+ [MG]iB of running VMs$/m,
  )
  t.diagnostic(`${before} MiB after the boot, ${filled} MiB filled, ${freed} MiB freed`)
  await remove(one.id)
})

test(
  'Firecracker gives its guests the same device',
  { skip: skipWithoutBareGuest === false ? skipWithoutFirecracker : skipWithoutBareGuest },
  async () => {
    const one = sleeper('ballooned', 62)
    await makeBare(one, { monitor: 'firecracker' })
    const socket = `/run/vmhostd/vm/${one.id}/api.sock`
    const balloon = JSON.parse(
      await sh('curl', '--silent', '--fail', '--unix-socket', socket, 'http://localhost/balloon'),
    )
    assert.equal(balloon.free_page_reporting, true)
    assert.ok((await resident('the guest is measured', one.id, () => true)) < 128)
    await remove(one.id)
  },
)
