import assert from 'node:assert/strict'
import { GATEWAY_IPV4, GATEWAY_IPV6, GATEWAY_MAC, guestRuleOf } from '../../src/core/network/tap.ts'
import { tapSettings } from '../../src/core/network/tap-settings.ts'
import { limits } from '../../src/config/limits.ts'
import { markOfTests, recordOf } from '../record.ts'
import type { FaultCode } from '../../src/core/errors.ts'
import { diskLimitsOf, NOW_MS, recordFor, secondsAgo } from './read-record.ts'
import { given } from '../../src/lib/given.ts'
import { kernelLookOf, unfitImagesOf } from './unfit-image.ts'
import { Words } from './words.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { TapFacts, TapState, FirewallState, TrafficState } from '../../src/core/world/network-state.ts'
import type { SavedState } from '../../src/core/world/saved-state.ts'
import { HELD } from '../../src/core/capacity/memory-standing.ts'
import type { Facts, GuestAtShutdown } from '../../src/core/plan/facet.ts'
import type {
  ConsoleState,
  DiskState,
  MonitorState,
  Probe,
  StorageState,
  UnitState,
  World,
} from '../../src/core/world/world.ts'
import type { Bandwidth, DesiredPower, Disk, ImageRole } from '../../src/core/desired.ts'
import type { DeviceName, MacAddress, UserId, VmId } from '../../src/core/ids.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'

/** A plan case: the desired and observed state, in words, and the facts beside it. */
export type PlanCase = {
  readonly name: string
  /** The lines that describe the case, as written. */
  readonly given: readonly string[]
  readonly expected: string
  readonly record: VmRecord
  readonly world: World
  readonly facts: Facts
}

const spec: TapSpec = {
  device: 'vmt600000' as DeviceName,
  vmId: 'web-1' as VmId,
  userId: 600_000 as UserId,
  guestMac: '02:76:00:09:27:c0' as MacAddress,
  ipv4Address: '192.0.2.10',
  ipv6Address: '2001:db8::10',
}
const tapFacts: TapFacts = {
  owner: spec.userId,
  macAddress: GATEWAY_MAC,
  up: true,
  attached: true,
  bandwidth: {},
  settings: Object.fromEntries(tapSettings(spec)),
  addresses: [`${GATEWAY_IPV4}/32`, `${GATEWAY_IPV6}/64`],
  routes: ['192.0.2.10/32', '2001:db8::10/128'],
  neighbours: [
    { address: '192.0.2.10', macAddress: spec.guestMac },
    { address: '2001:db8::10', macAddress: spec.guestMac },
  ],
}

/**
 * Reads one file of cases. A case is a `#` title, lines `room: words`, a line `---`, and the plan. A room that is not
 * named is as a settled running VM has it; `unknown CODE` in any room is an inspection that failed.
 */
export function parseCases(text: string): PlanCase[] {
  return text
    .split(/^# /m)
    .slice(1)
    .map((block) => {
      const [head = '', expected = ''] = block.split(/^---\n/m)
      const [name = '', ...lines] = head.split('\n')
      const inputs = lines.filter((line) => line.trim() !== '')
      const entries = new Map(
        inputs.map((line) => [line.split(':')[0] ?? '', line.slice(line.indexOf(':') + 1).trim()]),
      )
      return { name, given: inputs, expected: expected.trimEnd(), ...readEntries(entries) }
    })
}

function readEntries(entries: Map<string, string>): Pick<PlanCase, 'record' | 'world' | 'facts'> {
  const taken = new Map<string, Words>()
  const room = (name: string): Words => {
    const words = taken.get(name) ?? new Words(entries.get(name) ?? '')
    taken.set(name, words)
    entries.delete(name)
    return words
  }
  const desired = room('desired')
  const powers = ['running', 'paused', 'stopped'] as const
  const power: DesiredPower = powers.find((word) => desired.has(word)) ?? 'running'
  const record = recordFor(power, desired, room('recorded'))
  const without = room('monitor-without')
  const facts: Facts = {
    nowMs: NOW_MS,
    silentMs: silenceMs(room('monitor'), room('unit')),
    maySave: !room('saves').has('full'),
    mayRestore: !room('restores').has('full'),
    ...given({
      guestAtShutdown: guestAtShutdownOf(room('host')),
      drain: room('host').after('drains=') as Facts['drain'],
    }),
    ...memoryOf(room('memory')),
    capabilities: {
      startPaused: !without.has('start-paused'),
      save: !without.has('save'),
      kernelFormats: without.has('bzImage') ? ['ELF'] : ['bzImage', 'ELF'],
    },
    seedDigest: 'seed-as-rendered',
    ...(desired.has('no-network') ? {} : { tap: { ...spec, ...limitsOn(desired) } }),
  }
  const world: World = {
    unit: probe(room('unit'), unitOf),
    console: probe(room('console'), consoleOf),
    monitor: probe(room('monitor'), monitorOf),
    storage: probe(room('storage'), storageOf),
    tap: probe(room('tap'), tapOf),
    firewall: probe(room('firewall'), firewallOf),
    saved: probe(room('saved'), savedOf),
    traffic: probe(room('traffic'), trafficOf),
  }
  assert.deepEqual([...entries.keys()], [], 'a case has an entry that nothing reads')
  for (const [name, words] of taken) words.assertRead(name)
  return { record, world, facts }
}

/** Reads the VM's place in the queue for memory, and whether others wait. */
function memoryOf(words: Words): Pick<Facts, 'memory' | 'memoryIsShort'> {
  const memoryIsShort = words.has('others-wait')
  if (words.has('blocked')) {
    const because = { code: 'capacity_unknown', retry: 'backoff', message: 'nothing is known' } as const
    return { memory: () => ({ kind: 'blocked', because }), memoryIsShort }
  }
  if (words.has('free')) return { memory: () => ({ kind: 'free' }), memoryIsShort }
  if (!words.has('short')) return { memory: () => HELD, memoryIsShort }
  return { memory: () => ({ kind: 'short', place: 2, missingMib: 128 }), memoryIsShort }
}

/** A tap without limits has no such member, as a request without limits makes it. */
function limitsOn(words: Words): Pick<TapSpec, 'bandwidth'> {
  const bandwidth = bandwidthOf(words)
  return Object.keys(bandwidth).length === 0 ? {} : { bandwidth }
}

/**
 * Time since the monitor last answered: the unit's active time, unless a case says `silent seconds=` of the monitor.
 */
function silenceMs(monitor: Words, unit: Words): number {
  if (!monitor.has('silent')) return 0
  return (monitor.number('seconds=') ?? unit.number('seconds=') ?? 0) * 1000
}

/** Reads what becomes of the guest at a shutdown of the host; `again=` is when it is asked to end again, in seconds. */
function guestAtShutdownOf(words: Words): GuestAtShutdown | undefined {
  const what = words.after('shuts-down=')
  switch (what) {
    case undefined:
      return undefined
    case 'save':
    case 'ask':
      return { do: what }
    case 'leave':
      return { do: what, askAgainMs: (words.number('again=') ?? assert.fail('again when?')) * 1000 }
    default:
      return assert.fail(`no such end of a guest: ${what}`)
  }
}

function savedOf(words: Words): SavedState {
  const kind = words.first('absent')
  switch (kind) {
    case 'absent':
    case 'unfinished':
      return { kind }
    case 'present':
      return {
        kind,
        savedAtMs: secondsAgo(words.number('seconds=') ?? 1),
        sizeMib: 84,
        memoryMib: 256,
        vcpus: 1,
        form: 'mapped',
      }
    case 'unusable':
      return { kind, code: words.rest()[0] as FaultCode, because: 'it is not as it was written' }
    default:
      return assert.fail(`no such saved state: ${kind}`)
  }
}

function trafficOf(words: Words): TrafficState {
  const kind = words.first('flowing')
  if (kind === 'unwatched') return { kind }
  assert.ok(kind === 'flowing' || kind === 'held', `no such traffic: ${kind}`)
  return {
    kind: 'watched',
    frames: kind,
    packets: 7,
    idleMs: (words.number('idle=') ?? 0) * 1000,
    heldFrames: words.has('wanted') ? 1 : 0,
    ...(words.has('wanted') ? { wantedSinceMs: NOW_MS } : {}),
  }
}

function probe<T>(words: Words, read: (words: Words) => T): Probe<T> {
  if (!words.has('unknown')) return { known: true, value: read(words) }
  const code = words.rest()[0] as FaultCode
  return { known: false, code, retry: 'backoff', message: `the look failed with ${code}` }
}

function unitOf(words: Words): UnitState {
  const kind = words.first('active')
  switch (kind) {
    case 'active':
    case 'activating': {
      const ageMs = (words.number('seconds=') ?? limits.stableAfterMs / 1000) * 1000
      return { kind, mainPid: 4242, startedAtMs: NOW_MS - ageMs, mark: markOfTests }
    }
    case 'absent':
    case 'deactivating':
      return { kind }
    case 'foreign':
      return { kind, because: 'it is not its own' }
    case 'failed':
      return { kind, result: 'exit-code', status: words.number('status=') ?? 1 }
    case 'leftover':
      return { kind, pids: words.rest().map(Number) }
    default:
      return assert.fail(`no such unit state: ${kind}`)
  }
}

function consoleOf(words: Words): ConsoleState {
  const kind = words.first('stored')
  switch (kind) {
    case 'stored':
      return { kind, ptsPath: '/dev/pts/7' }
    case 'absent':
    case 'detached':
    case 'ended':
    case 'unstored':
    case 'unopened':
      return { kind }
    default:
      return assert.fail(`no such console state: ${kind}`)
  }
}

function monitorOf(words: Words): MonitorState {
  const kind = words.first('running')
  switch (kind) {
    case 'silent':
    case 'restoring':
      return { kind }
    case 'broken':
      return { kind, status: words.rest().join(' ') }
    case 'stalled':
      return { kind, status: 'io-error', disk: diskOf(words) }
    case 'running':
    case 'paused':
      return { kind, disk: diskOf(words) }
    default:
      return assert.fail(`no such monitor state: ${kind}`)
  }
}

const diskOf = (words: Words): Disk => ({
  sizeMib: words.number('disk=') ?? 64,
  ...diskLimitsOf(words),
})

function bandwidthOf(words: Words): Bandwidth {
  const receiveMbitPerSecond = words.number('receive=')
  const transmitMbitPerSecond = words.number('transmit=')
  return {
    ...(receiveMbitPerSecond === undefined ? {} : { receiveMbitPerSecond }),
    ...(transmitMbitPerSecond === undefined ? {} : { transmitMbitPerSecond }),
  }
}

function storageOf(words: Words): StorageState {
  const missing = words.after('missing=')
  const seed = words.after('seed=')
  const usable = words.has('unusable-seed') ? {} : { usableBy: recordOf().host.userId }
  return {
    disk: poolDiskOf(words),
    seed:
      seed === 'absent'
        ? { kind: 'absent' }
        : { kind: 'present', digest: seed ?? 'seed-as-rendered', ...usable },
    missingImages: missing === undefined ? [] : (missing.split(',') as ImageRole[]),
    unfitImages: unfitImagesOf(words),
    ...given({ kernelLook: kernelLookOf(words) }),
  }
}

function poolDiskOf(words: Words): DiskState {
  if (words.has('disk=absent'))
    return { kind: 'absent', ...(words.has('directory') ? { hasDirectory: true } : {}) }
  if (words.has('disk=foreign'))
    return {
      kind: 'foreign',
      because: 'it is not its own',
      ...given({ ofRebuild: words.number('rebuild=') }),
    }
  return {
    kind: 'present',
    sizeMib: words.number('disk=') ?? 64,
    ...(words.has('no-note')
      ? {}
      : {
          note: {
            mark: markOfTests,
            rootfsSha256: undefined,
            ...given({ rebuild: words.number('rebuild=') }),
          },
        }),
    ...(words.has('unusable') ? {} : { usableBy: recordOf().host.userId }),
  }
}

function tapOf(words: Words): TapState {
  const kind = words.first('present')
  if (kind === 'absent') return { kind }
  if (kind === 'foreign') return { kind, because: words.rest().join(' ') }
  return {
    kind: 'present',
    facts: {
      owner: words.number('owner=') ?? spec.userId,
      ...given({ group: words.number('group='), memberOf: words.after('member-of=') }),
      macAddress: words.has('guest-mac') ? spec.guestMac : tapFacts.macAddress,
      up: !words.has('down'),
      attached: !words.has('detached'),
      bandwidth: bandwidthOf(words),
      settings: tapFacts.settings,
      addresses: words.has('no-addresses') ? [] : tapFacts.addresses,
      routes: words.has('no-routes')
        ? []
        : [
            ...tapFacts.routes,
            ...(words.has('stale-route') ? ['192.0.2.99/32'] : []),
            ...(words.has('stale-prefix') ? ['2001:db8:1::/64 via 2001:db8::10'] : []),
          ],
      neighbours: words.has('no-neighbours') ? [] : tapFacts.neighbours,
    },
  }
}

function firewallOf(words: Words): FirewallState {
  const kind = words.first('intact')
  const [rule] = words.rest()
  const kinds = ['intact', 'absent', 'altered', 'unverified'] as const
  const found = kinds.find((known) => known === kind) ?? assert.fail(`no such firewall state: ${kind}`)
  if (found === 'altered' || found === 'unverified') return { kind: found }
  if (found === 'absent' && rule !== 'with-rule') return { kind: found }
  if (rule === 'without-rule') return { kind: found }
  const ours = guestRuleOf(spec)
  if (rule === 'other-outbound')
    return { kind: found, rule: { ...ours, outbound: [{ action: 'deny', protocol: 'any' }] } }
  return { kind: found, rule: rule === 'other-rule' ? { ...ours, ipv4Address: '192.0.2.99' } : ours }
}
