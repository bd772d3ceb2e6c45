import { given } from '../../src/lib/given.ts'
import { recordOf } from '../record.ts'
import type { DesiredPower, DiskLimits, Network } from '../../src/core/desired.ts'
import type { Arrival, ArrivalStage } from '../../src/core/migration/arrival.ts'
import type { ArrivalId, DepartureStage } from '../../src/core/migration/departure.ts'
import type { MigrationId, MigrationMode, NodeName } from '../../src/core/migration/offer.ts'
import type { Generation, Sha256 } from '../../src/core/ids.ts'
import type { Fault, Observed, VmRecord, WakeReason } from '../../src/core/vm/record.ts'
import type { Words } from './words.ts'

/** The time at which each plan case is planned. */
export const NOW_MS = Date.parse('2030-01-01T00:00:00Z')

export const secondsAgo = (seconds: number): number => NOW_MS - seconds * 1000

/**
 * Reads the words of `recorded`. `no-disk`: the VM's disk was never seen. `settled`: the VM was seen in its desired
 * state. `running=SECONDS`: how long it has shown that state. `woken=SECONDS`: how long ago its last wake ended.
 * `keep-awake=SECONDS`: the guest is kept awake for so much longer. `wake=REASON`: a wake was requested.
 * `begun=SECONDS`: a wake began with the state saved that long ago. `restores=SECONDS`: the same, and a unit was or
 * will be started to read that state. `may-be-saved`: a save has begun. `stop-accepted`: the newest stop is not carried
 * out. `grace=SECONDS`: the same, and its guest has so much time left to end by itself. `asked=SECONDS`: how long ago
 * it was asked to. `fault=STEP`: a fault. `short-sleeps=COUNT`: the number of short sleeps in a row. `rebuilt=NUMBER`:
 * the last rebuild that is done. `booted=NUMBER`: the last change of kernel and initrd that is done. `ended`: the guest
 * ended for good under the present power. `departure=STAGE`: how far a migration from this host is; `since=SECONDS`:
 * for how long. `arrival=STAGE`: how far one to this host is. `wakes`: the guest ran at its source. `trouble`:
 * something keeps the VM from coming. `expects-guest`: the source saves the guest for this host.
 */
export function recordFor(power: DesiredPower, words: Words, recorded: Words): VmRecord {
  const { network, ...desired } = recordOf().desired
  const settled = recorded.has('settled')
  return recordOf({
    desired: {
      ...desired,
      ...networkOf(network, words),
      power,
      compute: {
        ...desired.compute,
        cpuMillicores: words.number('millicores=') ?? desired.compute.cpuMillicores,
        sleepAfterIdleSeconds: words.number('sleep=') ?? 0,
        ...(words.has('wake=guaranteed') ? { wake: 'guaranteed' as const } : {}),
      },
      disk: { sizeMib: words.number('disk=') ?? 64, ...diskLimitsOf(words) },
      ...offerOf(words),
      image: {
        ...desired.image,
        ...(words.has('initrd') ? { initrdSha256: 'c'.repeat(64) as Sha256 } : {}),
        ...given({ rebuild: words.number('rebuild='), bootRevision: words.number('boot=') }),
      },
    },
    deleting: words.has('deleting'),
    powerGeneration: powerGenerationOf(words, recorded),
    generations: words.has('created')
      ? { desired: 1 as Generation, observed: 0 as Generation }
      : { desired: 2 as Generation, observed: (settled ? 2 : 1) as Generation },
    ...wakeOf(recorded),
    ...keptAwakeOf(recorded),
    ...departureOf(recorded),
    ...arrivalOf(recorded),
    stops: stopsOf(recorded),
    ...(recorded.has('may-be-saved') ? { mayBeSaved: true } : {}),
    observed: {
      ...shownOf(recorded),
      ...(recorded.has('no-disk') ? {} : { disk: { sizeMib: recorded.number('disk=') ?? 64 } }),
    },
  })
}

function networkOf(network: Network | undefined, words: Words): Pick<VmRecord['desired'], 'network'> {
  if (network === undefined || words.has('no-network')) return {}
  return { network: words.has('no-address') ? { macAddress: network.macAddress } : network }
}

function stopsOf(recorded: Words): VmRecord['stops'] {
  const left = recorded.number('grace=')
  const asked = recorded.number('asked=')
  const isAccepted = recorded.has('stop-accepted') || left !== undefined
  const grace =
    left === undefined
      ? undefined
      : {
          stop: 1,
          fromMs: secondsAgo(30),
          untilMs: secondsAgo(-left),
          ...given({ askedAtMs: asked === undefined ? undefined : secondsAgo(asked) }),
        }
  return { accepted: isAccepted ? 1 : 0, carriedOut: 0, ...given({ grace }) }
}

/** The power of a VM from another host was set there. */
const powerGenerationOf = (words: Words, recorded: Words): Generation =>
  (recorded.after('arrival=') !== undefined ? 0 : words.has('created') ? 1 : 2) as Generation

const NAMES = { id: 'move-1' as MigrationId, node: 'node-2' as NodeName }

/** Reads `offered` and `offered=cold`: a node may take the VM. */
function offerOf(words: Words): Pick<VmRecord['desired'], 'migration'> {
  const mode = words.after('offered=') ?? (words.has('offered') ? 'live' : undefined)
  if (mode === undefined) return {}
  return { migration: { ...NAMES, mode: mode as MigrationMode, expiresAtMs: NOW_MS + 60_000 } }
}

/** Reads `departure=STAGE`: how far the migration is; and `since=SECONDS`: when that stage began. */
function departureOf(recorded: Words): Pick<VmRecord, 'departure'> {
  const stage = recorded.after('departure=') as DepartureStage | undefined
  const sinceMs = secondsAgo(recorded.number('since=') ?? 0)
  return stage === undefined ? {} : { departure: { ...NAMES, mode: 'live', stage, sinceMs } }
}

/** Reads `arrival=STAGE`, `wakes` and `trouble`. */
function arrivalOf(recorded: Words): Pick<VmRecord, 'arrival'> {
  const stage = recorded.after('arrival=') as ArrivalStage | undefined
  if (stage === undefined) return {}
  const trouble = { code: 'source_busy', retry: 'backoff', message: 'asking the source to copy' } as const
  const arrival: Arrival = {
    id: 'a-1' as ArrivalId,
    migrationId: NAMES.id,
    source: 'https://192.0.2.1:9001',
    stage,
    wakes: recorded.has('wakes'),
    ...(recorded.has('expects-guest') ? { expectsGuest: true } : {}),
    round: 2,
    ...(stage === 'refused' ? { because: 'withdrawn' } : {}),
    ...(recorded.has('trouble') ? { trouble } : {}),
  }
  return { arrival }
}

function keptAwakeOf(recorded: Words): Pick<VmRecord, 'keepAwakeUntilMs'> {
  const seconds = recorded.number('keep-awake=')
  return seconds === undefined ? {} : { keepAwakeUntilMs: NOW_MS + seconds * 1000 }
}

function wakeOf(recorded: Words): Pick<VmRecord, 'wake'> {
  const reason = recorded.after('wake=') as WakeReason | undefined
  const restores = recorded.number('restores=')
  if (reason === undefined) return {}
  const savedSeconds = restores ?? recorded.number('begun=')
  const begun = {
    ...(savedSeconds === undefined ? {} : { savedAtMs: secondsAgo(savedSeconds) }),
    ...(restores === undefined ? {} : { restores: true as const }),
  }
  return { wake: { reason, atMs: NOW_MS, ...begun } }
}

function shownOf(recorded: Words): Observed {
  const runs = recorded.number('running=')
  const step = recorded.after('fault=')
  const shortSleeps = recorded.number('short-sleeps=')
  const woken = recorded.number('woken=')
  const fault: Fault | undefined = step === undefined ? undefined : { ...FAULT, step }
  return {
    ...(runs === undefined
      ? { state: 'pending', sinceMs: NOW_MS }
      : { state: 'running', sinceMs: secondsAgo(runs) }),
    ...given({ fault, rebuild: recorded.number('rebuilt='), bootRevision: recorded.number('booted=') }),
    ...(shortSleeps === undefined ? {} : { shortSleeps }),
    ...(recorded.has('ended') ? { endedAtPower: 2 as Generation } : {}),
    ...(woken === undefined ? {} : { lastWake: { ...WAKE, atMs: secondsAgo(woken) - WAKE.durationMs } }),
  }
}

const WAKE = { reason: 'traffic', durationMs: 500, heldPackets: 1, droppedPackets: 0 } as const

const FAULT: Omit<Fault, 'step'> = {
  code: 'save_failed',
  message: 'it failed',
  generation: 2 as Generation,
  sinceMs: NOW_MS,
  attempt: 1,
  nextAttemptAtMs: NOW_MS + 1000,
}

export function diskLimitsOf(words: Words): DiskLimits {
  const iopsMax = words.number('iops=')
  const mibPerSecondMax = words.number('mib/s=')
  return {
    ...(iopsMax === undefined ? {} : { iopsMax }),
    ...(mibPerSecondMax === undefined ? {} : { mibPerSecondMax }),
  }
}
