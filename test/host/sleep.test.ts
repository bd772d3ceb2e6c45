/** Sleep and wake of a VM by the installed daemon: which VMs sleep, what wakes them, and their state afterwards. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { once } from 'node:events'
import { test } from 'node:test'
import { call, getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { leave, view } from '../../lab/inside/console.ts'
import { datagram, echo, exchange } from '../../lab/inside/first-packets.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { mainPid, sh, unitProperty } from '../../lab/inside/shell.ts'
import { asleep, awake, makeSleeper, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { typeInto } from '../../lab/inside/type-into.ts'
import { until } from '../../lab/inside/until.ts'
import { limits } from '../../src/config/limits.ts'
import { OWN_MARK } from '../../src/host/ebpf/ignored-traffic.ts'
import { TcpProbes } from '../../src/host/probes/tcp-probes.ts'
import { IDLE_SECONDS, sleeperOfTests } from './sleeper-of-tests.ts'

const one = sleeper('sleep', 1)
const { id, ipv4, ipv6 } = one
const life = sleeperOfTests(one)
const UNIT = `vmhost-${id}`
/** Allowed error of the guest's clock after a wake: it is read in whole seconds, and set after the guest continues. */
const CLOCK_MS_MAX = 2500

const tapOf = async (): Promise<string> => /dev (\S+)/.exec(await sh('ip', 'route', 'get', ipv4))?.[1] ?? ''

type Sync = { readonly capacity: { readonly memory: { readonly committed_mib: number } } }

const committedMib = async (): Promise<number> =>
  ((await call('GET', '/v1/sync')).body as unknown as Sync).capacity.memory.committed_mib

test('the agent of a guest is seen soon after its boot, and stays seen over sleep and wake', async () => {
  // A guest is not looked at while it sleeps, and this one would sleep before its agent starts.
  await sleepAfter(id, 0)
  await sh('vmhostctl', 'vm', 'wait', id, '--for', 'ready', '--timeout', '2m')
  const { guest } = (await getVm(id)).observed
  await sleepAfter(id, IDLE_SECONDS)
  assert.ok(guest?.agent_since !== undefined && guest.ready_since !== undefined)
  assert.deepEqual((await asleep(id)).observed.guest, guest)
  await exchange(ipv4)
  assert.deepEqual((await awake(id)).observed.guest, guest)
})

test('an idle VM sleeps: none of its processes run, its tap stays, and its memory stays promised', async () => {
  const promised = await committedMib()
  const { observed, generations } = await asleep(id)
  assert.equal(generations.observed, generations.desired)
  assert.ok((observed.saved_state?.size_mib ?? 0) > 1)
  assert.equal(await unitProperty(UNIT, 'ActiveState'), 'inactive')
  assert.equal(await mainPid(UNIT), '0')
  assert.match(await tapOf(), /^vmt/)
  assert.ok(readdirSync('/sys/class/net').includes(await tapOf()))
  assert.equal(await committedMib(), promised)
})

const firstPackets = [
  ['TCP over IPv4', () => exchange(ipv4), ['tcp', ipv4, 80]],
  ['TCP over IPv6', () => exchange(ipv6), ['tcp', ipv6, 80]],
  ['UDP over IPv4', () => datagram(ipv4), ['udp', ipv4, 9]],
  ['UDP over IPv6', () => datagram(ipv6), ['udp', ipv6, 9]],
  ['ICMP echo over IPv4', () => echo(ipv4), ['icmp', ipv4, undefined]],
  ['ICMP echo over IPv6', () => echo(ipv6), ['icmpv6', ipv6, undefined]],
] as const

type Event = { readonly kind: string; readonly from?: string; readonly to?: string; readonly packet?: Packet }
type Packet = {
  readonly protocol: string
  readonly source: string
  readonly source_port?: number
  readonly destination: string
  readonly destination_port?: number
}

const historyOf = async (): Promise<readonly Event[]> =>
  (JSON.parse(await sh('vmhostctl', 'vm', 'history', id, '--json')) as { items: readonly Event[] }).items

/**
 * Defines a test of a wake by traffic. Other wakes must go in between: a VM that is repeatedly woken soon after it fell
 * asleep sleeps later and later.
 */
function firstPacketTest([kind, send, [protocol, address, port]]: (typeof firstPackets)[number]): void {
  test(`the first packet wakes the guest and reaches it: ${kind}`, async () => {
    const { observed } = await asleep(id)
    await send()
    const { last_wake: wake } = (await awake(id, observed.last_wake?.at)).observed
    assert.equal(wake?.reason, 'traffic')
    assert.ok((wake?.held_packets ?? 0) >= 1)
    assert.equal(wake?.dropped_packets, 0)
    const waking = (await historyOf()).findLast((event) => event.kind === 'vm_waking')
    const { packet } = waking ?? assert.fail('there is no event of the wake')
    assert.deepEqual(
      [packet?.protocol, packet?.destination, packet?.destination_port],
      [protocol, address, port],
    )
    const source = /src (\S+)/.exec(await sh('ip', 'route', 'get', address))?.[1]
    assert.equal(packet?.source, source)
    assert.equal(typeof packet?.source_port, port === undefined ? 'undefined' : 'number')
    await life.assertSame()
  })
}

for (const packet of firstPackets.slice(0, 3)) firstPacketTest(packet)

test('PUT power running wakes a VM, and its generation is reached when the guest is back', async () => {
  const { generations, observed } = await asleep(id)
  const { status, body } = await call('PUT', `/v1/vms/${id}/power`, { state: 'running' })
  assert.equal(status, 202)
  assert.deepEqual(body.generations, { desired: generations.desired + 1, observed: generations.desired })
  await until('the generation is reached', async () => {
    const vm = await getVm(id)
    return vm.generations.observed > generations.desired ? vm : undefined
  })
  assert.equal((await awake(id, observed.last_wake?.at)).observed.last_wake?.reason, 'power')
  await life.assertSame()
})

for (const packet of firstPackets.slice(3)) firstPacketTest(packet)

test('a timeout of 0 wakes a VM, which stays awake', async () => {
  const { observed } = await asleep(id)
  await sleepAfter(id, 0)
  const woken = await awake(id, observed.last_wake?.at)
  assert.equal(woken.observed.last_wake?.reason, 'sleep_disabled')
  await settled(id, 'running')
  await life.assertSame()
  await sleepAfter(id, IDLE_SECONDS)
})

test('a VM that is asked to stay awake wakes, and sleeps only when that time is over', async () => {
  const { observed } = await asleep(id)
  const untilMs = Date.now() + 15_000
  await sh('vmhostctl', 'vm', 'keep-awake', id, '15s')
  const woken = await awake(id, observed.last_wake?.at)
  assert.equal(woken.observed.last_wake?.reason, 'keep_awake')
  assert.deepEqual(woken.generations, (await getVm(id)).generations)
  const { saved_state: saved } = (await asleep(id)).observed
  assert.ok(Date.parse(saved?.saved_at ?? '') >= untilMs, `saved at ${saved?.saved_at}, before its time`)
  await life.assertSame()
})

test('a check that succeeds makes the guest ready, and neither keeps it awake nor wakes it', async () => {
  // Longer than the time between two checks, so a check that counted would keep the guest awake forever.
  await sleepAfter(id, limits.readinessLookMsMax / 1000 + 3)
  await sh('vmhostctl', 'vm', 'readiness', id, 'http:80/')
  await exchange(ipv4)
  await sh('vmhostctl', 'vm', 'wait', id, '--for', 'ready', '--timeout', '1m')
  const { observed } = await asleep(id)
  assert.equal(observed.guest?.not_ready, undefined)
  const probes = new TcpProbes({ mark: OWN_MARK })
  const check = { protocol: 'tcp', port: 80 } as const
  for (const address of [ipv4, ipv6])
    assert.match((await probes.probe({ address, check })) ?? '', /^port 80 took no connection within/)
  const after = await getVm(id)
  assert.deepEqual([after.observed.state, after.observed.last_wake], ['sleeping', observed.last_wake])
  await exchange(ipv4)
  for (const address of [ipv4, ipv6]) assert.equal(await probes.probe({ address, check }), undefined)
  await life.assertSame()
})

test('a check that fails says why, and the guest is not ready', async () => {
  await exchange(ipv4)
  await sh('vmhostctl', 'vm', 'readiness', id, 'tcp:81')
  await sleepAfter(id, 0)
  const { guest } = (
    await until('the check has failed', async () => {
      const vm = await getVm(id)
      return vm.observed.guest?.not_ready === undefined ? undefined : vm
    })
  ).observed
  assert.deepEqual([guest?.not_ready, guest?.ready_since], ['connect to port 81: ECONNREFUSED', undefined])
  await sh('vmhostctl', 'vm', 'readiness', id, 'none')
  await sh('vmhostctl', 'vm', 'wait', id, '--for', 'ready', '--timeout', '1m')
  await sleepAfter(id, IDLE_SECONDS)
})

test('a request that ends the time lets an idle VM sleep at once', async () => {
  await sh('vmhostctl', 'vm', 'keep-awake', id, '1d')
  await exchange(ipv4)
  await sh('vmhostctl', 'vm', 'keep-awake', id, '0')
  await asleep(id)
})

test("the guest's own clock is right after a wake, and its page the same in both families", async () => {
  await asleep(id)
  const page = await servedPage(ipv6)
  assert.equal(page.bootId, life.bootId)
  await until('the clock is right', async () =>
    Math.abs((await servedPage(ipv6)).atMs - Date.now()) < CLOCK_MS_MAX ? true : undefined,
  )
})

test('many packets and a request at once cause one restore, and none of them is lost', async () => {
  const { observed } = await asleep(id)
  const power = setPower(id, 'running')
  const answers = await Promise.all(firstPackets.map(([, send]) => send()))
  await power
  assert.equal(answers.length, firstPackets.length)
  const woken = await awake(id, observed.last_wake?.at)
  assert.equal(woken.observed.last_wake?.dropped_packets, 0)
  await life.assertSame()
})

test('an ssh console wakes a VM, and opens when it is up', async () => {
  const { observed } = await asleep(id)
  let text = ''
  const viewer = await view(id, { query: { mode: 'ssh' }, onOutput: (chunk) => (text += chunk.toString()) })
  viewer.socket.send(Buffer.from('hostname\r'))
  await until('the shell answers', async () => (text.includes(`\n${id}`) ? true : undefined))
  await leave(viewer)
  assert.equal((await awake(id, observed.last_wake?.at)).observed.last_wake?.reason, 'console')
})

test('a disk that grows wakes the guest, which sees it', async () => {
  await asleep(id)
  await mutate('PUT', `/v1/vms/${id}/disk`, { size_mib: 160 })
  await until('the guest sees its disk', async () =>
    (await getVm(id)).observed.disk?.guest_size_mib === 160 ? true : undefined,
  )
  await life.assertSame()
})

test('the serial console is one session over sleep and wake', async () => {
  await sleepAfter(id, 0)
  await settled(id, 'running')
  const typed = await typeInto(id, 'echo before-""sleep; counter=42')
  await sleepAfter(id, IDLE_SECONDS)
  await asleep(id)
  let text = ''
  const viewer = await view(id, { onOutput: (chunk) => (text += chunk.toString()) })
  await until('the history is there', async () => (text.includes('before-sleep') ? true : undefined))
  await exchange(ipv4)
  viewer.socket.send(Buffer.from('\recho after-""sleep $counter\r'))
  await until('the same shell answers', async () => (text.includes('after-sleep 42') ? true : undefined))
  await leave(viewer)
  assert.match(typed, /before-sleep/)
})

test('packets that do not count as traffic do not wake the guest: address resolution, multicast, a reset', async () => {
  const held = connect({ host: ipv4, port: 80 })
  held.on('error', () => {})
  await once(held, 'connect')
  const { observed } = await asleep(id)
  const tap = await tapOf()
  held.resetAndDestroy()
  const unanswered = (...args: readonly string[]) => assert.rejects(sh('ping', '-c', '1', '-W', '1', ...args))
  await unanswered('-I', tap, '198.51.100.250')
  await unanswered(`ff02::1%${tap}`)
  const beforeMs = Date.now()
  await exchange(ipv4)
  const { last_wake: wake } = (await awake(id, observed.last_wake?.at)).observed
  assert.ok(Date.parse(wake?.at ?? '') >= beforeMs - 1, 'something else had woken it before')
})

test('a paused VM does not sleep, even after another one like it has fallen asleep', async () => {
  const other = sleeper('sleep', 2)
  await setPower(id, 'running')
  await awake(id)
  await setPower(id, 'paused')
  await settled(id, 'paused')
  const pid = await mainPid(UNIT)
  await makeSleeper(other, { sleepAfterIdleSeconds: IDLE_SECONDS })
  await asleep(other.id)
  await exchange(other.ipv4)
  await asleep(other.id)
  assert.equal((await getVm(id)).observed.state, 'paused')
  assert.equal(await mainPid(UNIT), pid)
  await remove(other.id)
  await setPower(id, 'running')
  await life.assertSame()
})

test('a VM that is stopped while it sleeps boots afresh, and its saved state is gone', async () => {
  await asleep(id)
  await setPower(id, 'stopped')
  const { observed } = await settled(id, 'stopped')
  assert.equal(observed.saved_state, undefined)
  assert.deepEqual(
    readdirSync(`/var/lib/vmhostd/pool/disks/${id}`).filter((name) => name.startsWith('saved')),
    [],
  )
  await setPower(id, 'running')
  const page = await servedPage(ipv4)
  assert.notEqual(page.bootId, life.bootId)
  life.bootId = page.bootId
})
