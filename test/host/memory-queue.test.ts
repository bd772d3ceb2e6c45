/** Memory that sleeping VMs lend, on a host that has memory for one guest: the queue, and what makes room. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configure } from '../../lab/inside/configure.ts'
import { call, getVm } from '../../lab/inside/controller.ts'
import { datagram } from '../../lab/inside/first-packets.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { sh } from '../../lab/inside/shell.ts'
import { asleep, awake, makeSleeper, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import { IDLE_SECONDS } from './sleeper-of-tests.ts'

const [one, two] = [sleeper('lender', 51), sleeper('lender', 52)]
let bootId = ''
/** Longer than the test takes to see a wait, so that only memory that is short ends the guest's time awake. */
const LONG_IDLE_SECONDS = 40

type Memory = {
  readonly total_mib: number
  readonly committed_mib: number
  readonly allocatable_mib: number
  readonly held_mib: number
  readonly waiting_vms: number
}

const memory = async (): Promise<Memory> => {
  const { body } = await call('GET', '/v1/sync')
  return (body as unknown as { capacity: { memory: Memory } }).capacity.memory
}

sharedHost({
  make: async () => {
    await Promise.all([one, two].map((each) => makeSleeper(each, { sleepAfterIdleSeconds: IDLE_SECONDS })))
    bootId = (await servedPage(two.ipv4)).bootId
    const { total_mib: totalMib, committed_mib: bothMib } = await memory()
    const oneAndAHalfMib = Math.ceil(bothMib * 0.75)
    await configure('capacity', { memory_sleep_ratio: 0.5, memory_reserve_mib: totalMib - oneAndAHalfMib })
  },
  remove: () => configure('capacity', { memory_sleep_ratio: undefined, memory_reserve_mib: undefined }),
})

test('a wake beyond the memory waits in the queue, an idle VM makes room early, and no packet is lost', async () => {
  await Promise.all([asleep(one.id), asleep(two.id)])
  // A VM that slept before the restart lends its memory once a pass finds nothing left to do.
  await until('both have lent their memory', async () => (await memory()).held_mib === 0 || undefined)
  const lastTrafficMs = performance.now()
  await datagram(one.ipv4)
  await awake(one.id)
  await sleepAfter(one.id, LONG_IDLE_SECONDS)
  const earlier = (await getVm(two.id)).observed.last_wake?.at
  const answer = sh('curl', '--silent', '--fail', '--max-time', '60', `http://${two.ipv4}/`)
  const waiting = await until('the second VM waits for memory', async () => {
    const vm = (await getVm(two.id)) as unknown as {
      observed: { waiting_for?: string; memory_queue?: { place: number; missing_mib: number } }
    }
    return vm.observed.waiting_for === 'memory' ? vm.observed : undefined
  })
  assert.equal(waiting.memory_queue?.place, 1)
  assert.ok((waiting.memory_queue?.missing_mib ?? 0) > 0)
  assert.equal((await memory()).waiting_vms, 1)
  await asleep(one.id)
  assert.ok(
    performance.now() - lastTrafficMs < LONG_IDLE_SECONDS * 1000,
    'it slept only after its whole timeout',
  )
  await answer
  const { last_wake: wake } = (await awake(two.id, earlier)).observed
  assert.equal(wake?.dropped_packets, 0)
  assert.equal((await servedPage(two.ipv4)).bootId, bootId, 'the guest was booted again')
  const now = await memory()
  assert.ok(now.held_mib <= now.allocatable_mib)
})
