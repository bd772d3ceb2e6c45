import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { DeviceName } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { limits } from '../../src/config/limits.ts'
import { Rtnetlink } from '../../src/host/netlink/rtnetlink.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { formatTapMark } from '../../src/host/tap/tap-names.ts'
import { TapWatch } from '../../src/host/tap/tap-watch.ts'
import { atEnd } from '../contract/at-end.ts'
import { otherSpec, tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import { isSettled } from './hold-tap.ts'

const { device } = tapSpec
/** Reports of a link that take more room than the kernel gives us for events. */
const MORE_THAN_KEPT = 6000
const limited: TapSpec = { ...tapSpec, bandwidth: { transmitMbitPerSecond: 10 } }

function watching(t: TestContext): { taps: RoutedTaps; heard: (DeviceName | undefined)[] } {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  atEnd(t, () => taps.close())
  for (const { device: own, vmId } of [tapSpec, otherSpec]) atEnd(t, () => taps.remove(own, vmId))
  const heard: (DeviceName | undefined)[] = []
  taps.watch((changed) => heard.push(changed))
  return { taps, heard }
}

/** Runs synchronously, so that nothing else of this process runs meanwhile. */
const ipNow = (lines: readonly string[]): void => {
  execFileSync('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n` })
}

test('a watch needs neither a thread nor a timer, and lets the process end', { skip }, () => {
  const script = `
    import { readdirSync } from 'node:fs'
    import { RoutedTaps } from '${import.meta.dirname}/../../src/host/tap/routed-taps.ts'
    const threads = () => readdirSync('/proc/self/task').length
    const taps = new RoutedTaps({ storeId: 'store-1' })
    const before = threads()
    taps.watch(() => {})
    console.log(JSON.stringify([threads() - before, process.getActiveResourcesInfo()]))`
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  const [threads, resources] = JSON.parse(output) as [number, string[]]
  // Node makes a thread of its own for the first signal handler of any code.
  assert.ok(threads <= 1)
  assert.deepEqual(
    resources.filter((name) => name !== 'PipeWrap' && name !== 'TTYWrap'),
    [],
  )
})

test('more changes than one turn reads are all reported, also in an idle process', { skip }, async (t) => {
  const { taps } = watching(t)
  await taps.ensure(tapSpec)
  await isSettled(device)
  // A process that has nothing else to do. Its server waits for nothing that comes.
  // It ends at the tenth report of the tap.
  const script = `
    import { execFileSync } from 'node:child_process'
    import { createServer } from 'node:net'
    import { setImmediate } from 'node:timers/promises'
    import { Rtnetlink } from '${import.meta.dirname}/../../src/host/netlink/rtnetlink.ts'
    import { TapWatch } from '${import.meta.dirname}/../../src/host/tap/tap-watch.ts'
    createServer().listen(0)
    let reports = 0
    const watch = new TapWatch(new Rtnetlink(), () => {
      reports += 1
      if (reports === 10) process.exit()
    })
    // Several signals may be one: a burst is read to its end without the others.
    process.removeAllListeners('SIGIO').on('SIGIO', () => {})
    const routes = Array.from({ length: 2560 }, (_, i) => 'route add 198.18.' + (i >> 8) + '.' + (i & 255) + '/32 dev ${device}')
    execFileSync('ip', ['-batch', '-'], { input: routes.join('\\n') + '\\n' })
    for (let turn = 0; turn < 50; turn++) await setImmediate()
    watch.catchUp()`
  execFileSync(process.execPath, ['--input-type=module', '-e', script], { timeout: 5000 })
})

test('many changes at once cause one notification', { skip }, async (t) => {
  const { taps, heard } = watching(t)
  await taps.ensure(tapSpec)
  await isSettled(device)
  heard.length = 0
  ipNow(Array.from({ length: 100 }, (_, i) => `route add 198.51.100.${i}/32 dev ${device}`))
  await until(
    () => heard,
    (devices) => devices.length > 0,
  )
  assert.deepEqual(heard, [device])
})

test(
  "the kernel's reports of our own change arrive before the change is done, however late its signal",
  { skip },
  async (t) => {
    const { taps, heard } = watching(t)
    await taps.ensure(tapSpec)
    await isSettled(device)
    const signalled = process.listeners('SIGIO')
    process.on('SIGIO', () => {})
    for (const listener of signalled) process.off('SIGIO', listener)
    atEnd(t, () => signalled.forEach((listener) => process.on('SIGIO', listener)))
    heard.length = 0
    await taps.ensure(limited)
    assert.deepEqual(heard, [device])
    await taps.ensure(limited)
    await taps.inspect(device, tapSpec.vmId)
    assert.deepEqual(heard, [device])
    await taps.remove(device, tapSpec.vmId)
    assert.deepEqual(heard, [device, device])
  },
)

test('a queue device is reported as its tap', { skip }, async (t) => {
  const { taps, heard } = watching(t)
  await taps.ensure(limited)
  await isSettled(device)
  heard.length = 0
  ipNow(['link set dev vmq100001 down'])
  await until(
    () => heard,
    (devices) => devices.length > 0,
  )
  assert.deepEqual(new Set(heard), new Set([device]))
})

test(
  'a device that takes a name of ours, and one that gives it up, are reported by that name',
  { skip },
  async (t) => {
    const { heard } = watching(t)
    ipNow(['link add spare0 type veth peer name spare1'])
    ipNow([`link set spare0 name ${device}`])
    atEnd(t, () => run(['ip', 'link', 'del', 'spare1']))
    await until(
      () => heard,
      (devices) => devices.length > 0,
    )
    heard.length = 0
    ipNow([`link set ${device} name spare0`])
    await until(
      () => heard,
      (devices) => devices.length > 0,
    )
    assert.deepEqual(new Set(heard), new Set([device]))
  },
)

test(
  'more changes than the kernel keeps for us are reported as a change of anything',
  { skip },
  async (t) => {
    const { taps, heard } = watching(t)
    await taps.ensure(tapSpec)
    heard.length = 0
    const far = Array.from({ length: 20_000 }, (_, i) => `198.18.${i >> 8}.${i & 255}/32 dev ${device}`)
    ipNow(far.map((route) => `route add ${route}`))
    await until(
      () => heard,
      (devices) => devices.includes(undefined),
    )
    heard.length = 0
    // The kernel has no room for what comes while the rest is read, and does not say so a second time.
    await taps.ensure(otherSpec)
    await until(
      () => heard,
      (devices) => devices.includes(undefined),
    )
    heard.length = 0
    ipNow([`link set ${otherSpec.device} down`])
    await until(
      () => heard,
      (devices) => devices.includes(otherSpec.device),
    )
  },
)

/** Sets the mark of a tap that it has already. The kernel reports that, as it does what a monitor does to its tap. */
const markAgain = `link set dev ${device} alias ${formatTapMark({ storeId: 'store-1', id: tapSpec.vmId })}`

test('a tap that is shown as it was is not reported, and ends nothing that is kept', { skip }, async (t) => {
  const { taps } = watching(t)
  await taps.ensure(tapSpec)
  await isSettled(device)
  const heard: unknown[] = []
  let changes = 0
  const watch = new TapWatch(
    new Rtnetlink(),
    (changed) => heard.push(changed),
    () => (changes += 1),
  )
  atEnd(t, () => watch.close())
  ipNow([markAgain, markAgain])
  watch.catchUp()
  assert.deepEqual([heard, changes], [[], 0])
  ipNow([`link set ${device} down`])
  watch.catchUp()
  assert.deepEqual([heard, changes], [[device], 1])
})

test('a change after a loss is reported, even to what an older message showed', { skip }, async (t) => {
  const { taps } = watching(t)
  await taps.ensure(tapSpec)
  await isSettled(device)
  const heard: unknown[] = []
  const watch = new TapWatch(new Rtnetlink(), (changed) => heard.push(changed))
  atEnd(t, () => watch.close())
  // The messages that the kernel keeps show the tap up. It drops the one that shows it down.
  ipNow([...Array<string>(MORE_THAN_KEPT).fill(markAgain), `link set ${device} down`])
  for (let read = 0; read < MORE_THAN_KEPT; read += limits.netlinkEventsPerTurn) watch.catchUp()
  assert.ok(heard.includes(undefined), 'nothing was lost')
  heard.length = 0
  ipNow([`link set ${device} up`])
  watch.catchUp()
  assert.ok(heard.includes(device))
})

test('losses without end cause few readings of all taps', { skip }, async (t) => {
  const { taps } = watching(t)
  await taps.ensure(tapSpec)
  await isSettled(device)
  const heard: unknown[] = []
  const rtnetlink = new Rtnetlink()
  const startMs = performance.now()
  const watch = new TapWatch(rtnetlink, (changed) => heard.push(changed))
  atEnd(t, () => watch.close())
  const links = t.mock.method(rtnetlink, 'links')
  for (let round = 0; round < 5; round += 1) {
    ipNow(Array<string>(MORE_THAN_KEPT).fill(markAgain))
    // The kernel says again that it lost some only after all that it kept were read.
    for (let read = 0; read < MORE_THAN_KEPT; read += limits.netlinkEventsPerTurn) watch.catchUp()
  }
  assert.ok(heard.length > 1, `${heard.length} losses`)
  assert.deepEqual(new Set(heard), new Set([undefined]))
  // Each reads the taps, and then their queue devices.
  const readings = links.mock.callCount() / 2
  const earned = (performance.now() - startMs) / limits.lostTapsReadEveryMs
  assert.ok(readings <= 1 + earned, `${readings} readings`)
})

test('a closed watch reports nothing more, and other watches continue', { skip }, async (t) => {
  const { taps, heard } = watching(t)
  const closed = new RoutedTaps({ storeId: 'store-1' })
  const silent: unknown[] = []
  closed.watch((changed) => silent.push(changed))
  await taps.ensure(tapSpec)
  await until(
    () => silent,
    (devices) => devices.length > 0,
  )
  closed.close()
  await isSettled(device)
  silent.length = 0
  heard.length = 0
  await taps.ensure({ ...tapSpec, ipv4Address: '192.0.2.20' })
  await until(
    () => heard,
    (devices) => devices.includes(device),
  )
  assert.deepEqual(silent, [])
})

test('what is kept of routes and neighbours outlives neighbours of other devices', { skip }, async (t) => {
  const { taps } = watching(t)
  await taps.ensure(tapSpec)
  // Without an address of its own: the test of one ends a second or two later, with a route.
  const ends = ['other', 'other-end']
  ipNow([
    'link add other type veth peer name other-end',
    ...ends.map((end) => `link set ${end} addrgenmode none`),
    ...ends.map((end) => `link set ${end} up`),
  ])
  atEnd(t, () => ipNow(['link del other']))
  await isSettled(device)
  await until(
    async () => (await run(['ip', '-6', 'route', 'show', 'table', 'all'])).stdout,
    (routes) => ends.every((end) => new RegExp(`ff00::/8 dev ${end} `).test(routes)),
  )
  let changes = 0
  const watch = new TapWatch(
    new Rtnetlink(),
    () => {},
    () => (changes += 1),
  )
  atEnd(t, () => watch.close())
  const changesAfter = (line: string): number => {
    changes = 0
    ipNow([line])
    watch.catchUp()
    return changes
  }
  const neighbour = 'neigh replace 192.0.2.77 lladdr 02:00:00:00:00:77'
  assert.equal(changesAfter(`${neighbour} nud reachable dev other`), 0)
  assert.equal(changesAfter(`${neighbour} nud permanent dev other`), 0)
  assert.equal(changesAfter(`${neighbour} nud permanent dev ${device}`), 1)
  assert.equal(changesAfter('route add 198.51.100.7/32 dev other'), 1)
  assert.equal(changesAfter(`route change 198.51.100.7/32 nexthop dev other nexthop dev ${device}`), 1)
  // Behind as many as one turn reads, there may be a change of a tap.
  const many = Array.from({ length: limits.netlinkEventsPerTurn }, (_, i) => `198.18.${i >> 8}.${i & 255}`)
  const replace = (address: string): string =>
    `neigh replace ${address} lladdr 02:00:00:00:00:77 nud permanent dev other`
  assert.equal(changesAfter(many.map(replace).join('\n')), 1)
})
