/*
 * Walks through every order in which a source and two destinations of one offer can act, with messages that are lost,
 * repeated and late, deadlines, and crashes. Hosts are simplified: the guest's memory and disk are one version number,
 * which rises while the guest runs.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isNotReleased } from '../vm/leaving.ts'
import { arrivalAfter } from './arrival.ts'
import { afterEvent, isHandover } from './departure.ts'
import type { Arrival, ArrivalEvent, ArrivalRequest } from './arrival.ts'
import type { ArrivalId, Departure, DepartureEvent } from './departure.ts'
import type { MigrationId, NodeName } from './offer.ts'

type Request = Extract<DepartureEvent, { readonly kind: ArrivalRequest }>
type Message =
  | { readonly to: 'source'; readonly from: number; readonly request: Request }
  | { readonly to: number; readonly answer: Answer }

type Answer =
  | { readonly kind: 'released'; readonly atMs: number }
  | { readonly kind: 'handed_over'; readonly lastRound: number; readonly version: number }
  | Extract<ArrivalEvent, { readonly kind: 'refused' }>

type Source = {
  readonly departure: Departure
  readonly guest: 'runs' | 'saved' | 'gone'
  readonly version: number
}
type Destination = {
  readonly arrival: Arrival
  /** The version on the disk; undefined until everything is pulled. */
  readonly version?: number
  readonly guest: 'none' | 'loaded' | 'runs'
}
type World = {
  readonly source: Source
  readonly destinations: readonly [Destination, Destination]
  readonly messages: readonly Message[]
}

const MESSAGES_MAX = 2
const VERSION_MAX = 2

const destinationOf = (number: number): Destination => ({
  arrival: {
    id: `a${number}` as ArrivalId,
    migrationId: 'm' as MigrationId,
    source: 'https://192.0.2.1:9001',
    stage: 'pulling',
    wakes: true,
    round: 0,
  },
  guest: 'none',
})

const begin: World = {
  source: {
    departure: { id: 'm' as MigrationId, node: 'n' as NodeName, mode: 'live', stage: 'offered', sinceMs: 0 },
    guest: 'runs',
    version: 0,
  },
  destinations: [destinationOf(0), destinationOf(1)],
  messages: [],
}

/** The last round is numbered after the version, so that a destination with another one is seen. */
const roundOf = (version: number): number => version + 1

function sourceMoves({ source }: World): Source[] {
  const { departure, guest, version } = source
  const moves: Source[] = []
  if (guest === 'runs' && version < VERSION_MAX) moves.push({ ...source, version: version + 1 })
  if (guest === 'runs' && isHandover(departure)) moves.push({ ...source, guest: 'saved' })
  const saved = afterEvent(departure, { kind: 'guest_saved', lastRound: roundOf(version) }, 0)
  if (guest === 'saved' && saved.ok) moves.push({ ...source, departure: saved.value })
  if (guest === 'saved' && departure.stage === 'withdrawn') moves.push({ ...source, guest: 'runs' })
  if (guest === 'saved' && departure.stage === 'released') moves.push({ ...source, guest: 'gone' })
  const withdrawn = afterEvent(departure, { kind: 'withdraw', because: 'expired' }, 0)
  if (withdrawn.ok) moves.push({ ...source, departure: withdrawn.value })
  return moves
}

function requestsOf({ arrival }: Destination): Request[] {
  const { id, stage, round } = arrival
  if (stage === 'pulling')
    return [
      { kind: 'copy', arrival: id },
      { kind: 'hand_over', arrival: id, lived: 'running' },
    ]
  return stage === 'pulled' ? [{ kind: 'release', arrival: id, lastRound: round }] : []
}

/** Changes of a destination by itself. A crash of its host loses a guest that is only loaded. */
function destinationMoves(destination: Destination): Destination[] {
  const { arrival, guest } = destination
  const moves: Destination[] = []
  const isWhole = destination.version !== undefined && arrival.stage !== 'refused'
  if (guest === 'none' && isWhole) moves.push({ ...destination, guest: 'loaded' })
  if (guest === 'loaded') moves.push({ ...destination, guest: 'none' })
  if (guest === 'loaded' && !isNotReleased({ arrival })) moves.push({ ...destination, guest: 'runs' })
  return moves
}

function receive(destination: Destination, answer: Answer): Destination {
  const { arrival } = destination
  if (answer.kind === 'handed_over') {
    if (arrival.stage !== 'pulling') return destination
    const pulled = arrivalAfter(arrival, { kind: 'all_pulled', wakes: true, lastRound: answer.lastRound })
    return { ...destination, arrival: pulled, version: answer.version }
  }
  const after = arrivalAfter(arrival, answer)
  return after.stage === 'refused' ? { arrival: after, guest: 'none' } : { ...destination, arrival: after }
}

/** Returns the source after a request, and its answer. */
function answerTo(source: Source, from: number, request: Request): { source: Source; message?: Message } {
  const result = afterEvent(source.departure, request, 0)
  if (!result.ok) {
    const refused = { kind: 'refused', request: request.kind, because: result.error } as const
    return { source, message: { to: from, answer: refused } }
  }
  const { lastRound } = result.value
  const after = { ...source, departure: result.value }
  if (request.kind === 'release')
    return { source: after, message: { to: from, answer: { kind: 'released', atMs: 0 } } }
  if (request.kind === 'copy' || lastRound === undefined) return { source: after }
  const answer: Answer = { kind: 'handed_over', lastRound, version: source.version }
  return { source: after, message: { to: from, answer } }
}

function withDestination(world: World, number: number, destination: Destination): World {
  const [first, second] = world.destinations
  return { ...world, destinations: number === 0 ? [destination, second] : [first, destination] }
}

function next(world: World): World[] {
  const worlds: World[] = sourceMoves(world).map((source) => ({ ...world, source }))
  world.destinations.forEach((destination, number) => {
    for (const moved of destinationMoves(destination)) worlds.push(withDestination(world, number, moved))
    if (world.messages.length >= MESSAGES_MAX) return
    for (const request of requestsOf(destination))
      worlds.push({ ...world, messages: [...world.messages, { to: 'source', from: number, request }] })
  })
  world.messages.forEach((message, at) => {
    const rest = world.messages.toSpliced(at, 1)
    worlds.push({ ...world, messages: rest })
    // A message is delivered once, or stays to be delivered again.
    for (const messages of [rest, world.messages]) worlds.push(deliver({ ...world, messages }, message))
  })
  return worlds.filter(({ messages }) => messages.length <= MESSAGES_MAX)
}

function deliver(world: World, message: Message): World {
  if (message.to !== 'source') {
    const destination = world.destinations[message.to as 0 | 1]
    return withDestination(world, message.to, receive(destination, message.answer))
  }
  const { source, message: sent } = answerTo(world.source, message.from, message.request)
  return { ...world, source, messages: sent === undefined ? world.messages : [...world.messages, sent] }
}

/** Returns every world that can be reached, each with those that follow. */
function explore(): Map<string, { readonly world: World; readonly followers: readonly string[] }> {
  const keyOf = (world: World): string => JSON.stringify(world)
  const found = new Map([[keyOf(begin), { world: begin, followers: [] as readonly string[] }]])
  // A Map visits what is added while it is walked.
  for (const [key, { world }] of found) {
    const worlds = next(world)
    found.set(key, { world, followers: worlds.map(keyOf) })
    for (const follower of worlds)
      if (!found.has(keyOf(follower))) found.set(keyOf(follower), { world: follower, followers: [] })
  }
  return found
}

const running = ({ source, destinations }: World): number =>
  [source, ...destinations].filter(({ guest }) => guest === 'runs').length

const reached = explore()

test('no order of events runs two guests, or a guest on another version of its disk', () => {
  assert.ok(reached.size > 10_000, `only ${reached.size} worlds were reached`)
  for (const { world } of reached.values()) {
    assert.ok(running(world) <= 1, `two guests run: ${JSON.stringify(world)}`)
    for (const { guest, version } of world.destinations)
      if (guest === 'runs') assert.equal(version, world.source.version, JSON.stringify(world))
  }
})

test('from every world one guest can run again, and the migration can succeed and fail', () => {
  const users = new Map<string, string[]>()
  for (const [key, { followers }] of reached)
    for (const follower of followers) users.set(follower, [...(users.get(follower) ?? []), key])
  const live = new Set([...reached].filter(([, { world }]) => running(world) === 1).map(([key]) => key))
  // A Set visits what is added while it is walked.
  for (const key of live) for (const user of users.get(key) ?? []) live.add(user)
  const lost = [...reached.keys()].find((key) => !live.has(key))
  assert.equal(lost, undefined, `no guest can ever run again: ${lost}`)
  const worlds = [...reached.values()].map(({ world }) => world)
  assert.ok(worlds.some(({ destinations }) => destinations.some(({ guest }) => guest === 'runs')))
  assert.ok(worlds.some(({ source }) => source.departure.stage === 'withdrawn' && source.guest === 'runs'))
})
