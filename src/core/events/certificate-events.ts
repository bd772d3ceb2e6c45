import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { CertificateEvent } from './event.ts'

/**
 * A certificate that a host depends on. That of a client has its name and serial number.
 * Times in milliseconds since the epoch.
 */
export type CertificateSeen = {
  readonly certificate: string
  readonly notAfterMs: number
  readonly name?: string
  readonly serial?: string
}

/** The revocation list of one authority. `revoked` is the number of its certificates. */
export type ListSeen = {
  readonly issuer: string
  readonly revoked: number
  readonly thisUpdateMs: number
  readonly nextUpdateMs?: number
}

/** The result of a look. `lists` has each listener that is open, with its lists. */
export type TrustSeen = {
  readonly certificates: readonly CertificateSeen[]
  readonly lists: ReadonlyMap<string, readonly ListSeen[]>
}

/** The result of all looks so far, as it is stored. */
export type TrustNoted = Readonly<Record<string, Noted>>

/**
 * `version` changes when another one takes its place. `notedAtMs` is the time of day when the phase was an event; a row
 * of an older version does not have it.
 */
type Noted = { readonly version: string; readonly phase: number; readonly notedAtMs?: number }

type Subject = {
  readonly key: string
  readonly version: string
  readonly phase: number
  /** The events of a phase, from 1 on. */
  readonly ofPhase: readonly CertificateEvent[]
  /** The event of another one in its place. */
  readonly replaced?: CertificateEvent
}

const CLIENT = 'client '

/**
 * Returns what happened to certificates and revocation lists between earlier looks and this one, and what to note. What
 * is seen for the first time is an event only if it ends soon.
 */
export function certificateEvents(
  before: TrustNoted,
  seen: TrustSeen,
  nowMs: number,
): { readonly events: readonly CertificateEvent[]; readonly noted: TrustNoted } {
  const subjects = [
    ...seen.certificates.map((one) => certificateSubject(one, nowMs)),
    ...[...seen.lists].flatMap(([listener, lists]) => listSubjects(listener, lists, nowMs)),
  ]
  const noted = new Map(Object.entries(before).filter(([key, one]) => isKept(key, one, seen, nowMs)))
  const events = subjects.flatMap((subject) => {
    const { key, version, phase, ofPhase, replaced } = subject
    const last = before[key]
    const same = last?.version === version ? last : undefined
    const begun = phase > phaseReached(same, nowMs) ? ofPhase[phase - 1] : undefined
    noted.delete(key)
    if (begun !== undefined) noted.set(key, { version, phase, notedAtMs: nowMs })
    else if (same !== undefined) noted.set(key, same)
    else if (replaced !== undefined) noted.set(key, { version, phase })
    return [
      ...(last !== undefined && same === undefined && replaced !== undefined ? [replaced] : []),
      ...(begun !== undefined ? [begun] : []),
    ]
  })
  const clients = [...noted.keys()].filter((key) => key.startsWith(CLIENT))
  for (const key of clients.slice(0, -limits.clientCertificatesMax)) noted.delete(key)
  return { events, noted: Object.fromEntries(noted) }
}

/**
 * Returns the phase whose event is not repeated. An event from a time that is not yet reached came from a clock that
 * was ahead, and does not count. A clock that was put back a little repeats no event.
 */
function phaseReached(noted: Noted | undefined, nowMs: number): number {
  if (noted === undefined) return 0
  const { phase, notedAtMs = nowMs } = noted
  return notedAtMs - nowMs > limits.certificateEventClockMs ? 0 : phase
}

function certificateSubject(
  { certificate, notAfterMs, name, serial }: CertificateSeen,
  nowMs: number,
): Subject {
  const of = { certificate, notAfterMs, ...given({ name, serial }) }
  const isSoon = notAfterMs - nowMs <= limits.certificateWarningDays * DAY_MS
  return {
    key: serial === undefined ? certificate : `${CLIENT}${serial}`,
    version: String(notAfterMs),
    phase: notAfterMs <= nowMs ? 2 : isSoon ? 1 : 0,
    ofPhase: [
      { kind: 'certificate_ends_soon', ...of },
      { kind: 'certificate_ended', ...of },
    ],
    // A client may use several at a time, so none takes the place of another.
    ...(serial === undefined ? { replaced: { kind: 'certificate_replaced', ...of } } : {}),
  }
}

function listSubjects(listener: string, lists: readonly ListSeen[], nowMs: number): readonly Subject[] {
  return lists.map(({ issuer, revoked, thisUpdateMs, nextUpdateMs = Infinity }, index) => {
    const due = nextUpdateMs === Infinity ? {} : { nextUpdateMs }
    // Authorities may have one name and several keys.
    const number = lists.slice(0, index).filter((other) => other.issuer === issuer).length
    return {
      key: `${listOf(listener)}${number} ${issuer}`,
      version: `${thisUpdateMs} ${nextUpdateMs} ${revoked}`,
      phase: nextUpdateMs <= nowMs ? 1 : 0,
      ofPhase: [{ kind: 'revocation_list_overdue', listener, issuer, revoked, ...due }],
      replaced: { kind: 'revocation_list_replaced', listener, issuer, revoked, ...due },
    }
  })
}

const listOf = (listener: string): string => `list ${listener} `

/**
 * A list that is gone is forgotten, and so is a client a week after its end.
 * A listener that is not open yet has its lists.
 */
function isKept(key: string, { version }: Noted, { lists }: TrustSeen, nowMs: number): boolean {
  if (key.startsWith(CLIENT)) return Number(version) > nowMs - limits.clientCertificateSeenMs
  return ![...lists.keys()].some((listener) => key.startsWith(listOf(listener)))
}
