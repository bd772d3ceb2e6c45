import { setTimeout as sleep } from 'node:timers/promises'
import { Compile } from 'typebox/compile'
import { manifestSchema } from '../../api/wire/manifest.ts'
import {
  consoleFromWire,
  handOverFromWire,
  manifestFromWire,
  packetsFromWire,
} from '../../api/wire/moves-from-wire.ts'
import {
  handOverSchema,
  heldPacketsSchema,
  movedConsoleSchema,
  moveStageSchema,
  roundSchema,
} from '../../api/wire/moves.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { ok } from '../../lib/result.ts'
import { continuedFrames } from './continued-frames.ts'
import { NodeOutbound } from './node-outbound.ts'
import { SourceRequests } from './source-requests.ts'
import type { Static, TSchema } from 'typebox'
import type { Sha256 } from '../../core/ids.ts'
import type { Frame } from '../../core/migration/frames.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { HandOver, Manifest } from '../../core/vm/manifest.ts'
import type { MovedConsole } from '../../ports/consoles.ts'
import type { Round } from '../../ports/disk-rounds.ts'
import type { Answered, MoveRef, SourceHost, SourceHosts } from '../../ports/source-host.ts'
import type { HeldPacket } from '../../ports/traffic.ts'
import type { NodeOutboundOptions } from './node-outbound.ts'
import type { SourceBytes } from './continued-frames.ts'
import type { Fits } from './source-requests.ts'

/** Other hosts, over the coordination API of each. */
export class HttpSourceHosts implements SourceHosts {
  readonly #outbound: NodeOutbound

  constructor(options: NodeOutboundOptions) {
    this.#outbound = new NodeOutbound(options)
  }

  at(origin: string): SourceHost {
    return new HttpSourceHost(new SourceRequests(origin, this.#outbound))
  }

  /** Ends all connections. */
  close(): void {
    this.#outbound.close()
  }
}

function fitting<S extends TSchema>(schema: S): Fits<Static<S>> {
  const compiled = Compile(schema)
  return (value): value is Static<S> => compiled.Check(value)
}

const isManifest = fitting(manifestSchema)
const isRound = fitting(roundSchema)
const isHandOver = fitting(handOverSchema)
const isStage = fitting(moveStageSchema)
const isConsole = fitting(movedConsoleSchema)
const arePackets = fitting(heldPacketsSchema)

class HttpSourceHost implements SourceHost {
  readonly #requests: SourceRequests

  constructor(requests: SourceRequests) {
    this.#requests = requests
  }

  async manifest(id: MigrationId, signal: AbortSignal): Answered<Manifest> {
    const answer = await this.#requests.json({ path: pathOf(id), signal }, isManifest)
    if (!answer.ok) return answer
    try {
      return ok(manifestFromWire(answer.value))
    } catch (cause) {
      throw new HostFault('source_refused', `reading the manifest of migration ${id}`, { cause })
    }
  }

  async ensureRound({ migrationId, arrival }: MoveRef, number: number, signal: AbortSignal): Answered<Round> {
    const request = { path: `${pathOf(migrationId)}/rounds`, body: { arrival, number }, signal }
    const answer = await this.#requests.json(request, isRound)
    if (!answer.ok) return answer
    return ok({ sizeBytes: answer.value.size_bytes, changedBytes: answer.value.changed_bytes })
  }

  roundFrames(
    { migrationId, arrival }: MoveRef,
    { number, sizeBytes }: { readonly number: number; readonly sizeBytes: number },
    signal: AbortSignal,
  ): Answered<AsyncIterable<Frame>> {
    return this.#frames(
      { path: `${pathOf(migrationId)}/rounds/${number}?arrival=${arrival}`, signal },
      sizeBytes,
    )
  }

  memoryFrames(
    { migrationId, arrival }: MoveRef,
    lengthBytes: number,
    signal: AbortSignal,
  ): Answered<AsyncIterable<Frame>> {
    return this.#frames({ path: `${pathOf(migrationId)}/memory?arrival=${arrival}`, signal }, lengthBytes)
  }

  async #frames(
    { path, signal }: { readonly path: string; readonly signal: AbortSignal },
    sizeBytes: number,
  ): Answered<AsyncIterable<Frame>> {
    const open = (from: number): Answered<SourceBytes> =>
      this.#requests.bytes({ path: `${path}&from=${from}`, signal })
    const first = await open(0)
    if (!first.ok) return first
    return ok(continuedFrames({ first: first.value, open, sizeBytes, pause: pausesUntil(signal) }))
  }

  async handOver({ migrationId, arrival }: MoveRef, signal: AbortSignal): Answered<HandOver> {
    const request = { path: `${pathOf(migrationId)}/handover`, body: { arrival }, signal }
    const answer = await this.#requests.json(request, isHandOver)
    return answer.ok ? ok(handOverFromWire(answer.value)) : answer
  }

  image(id: MigrationId, sha256: Sha256, signal: AbortSignal): Answered<AsyncIterable<Uint8Array>> {
    return this.#requests.bytes({ path: `${pathOf(id)}/images/${sha256}`, signal })
  }

  async console({ migrationId, arrival }: MoveRef, signal: AbortSignal): Answered<MovedConsole | undefined> {
    const request = { path: `${pathOf(migrationId)}/console?arrival=${arrival}`, signal }
    const answer = await this.#requests.json(request, isConsole)
    if (answer.ok) return ok(consoleFromWire(answer.value))
    // A VM that has never started has no console.
    return answer.error === 'unknown' ? ok(undefined) : answer
  }

  async release({ migrationId, arrival }: MoveRef, lastRound: number, signal: AbortSignal): Answered<void> {
    const body = { arrival, last_round: lastRound }
    const answer = await this.#requests.json(
      { path: `${pathOf(migrationId)}/release`, body, signal },
      isStage,
    )
    return answer.ok ? ok(undefined) : answer
  }

  async abort({ migrationId, arrival }: MoveRef, signal: AbortSignal): Answered<void> {
    const request = { path: `${pathOf(migrationId)}/abort`, body: { arrival }, signal }
    const answer = await this.#requests.json(request, isStage)
    return answer.ok ? ok(undefined) : answer
  }

  async heldPackets(
    { migrationId, arrival }: MoveRef,
    { after, waitMs }: { readonly after: number; readonly waitMs: number },
    signal: AbortSignal,
  ): Answered<readonly HeldPacket[]> {
    const query = `arrival=${arrival}&after=${after}&wait_ms=${waitMs}`
    const request = { path: `${pathOf(migrationId)}/held-packets?${query}`, signal }
    const answer = await this.#requests.json(request, arePackets)
    return answer.ok ? ok(packetsFromWire(answer.value)) : answer
  }
}

/** Pauses twice as long before each attempt. Throws the signal's reason. */
const pausesUntil =
  (signal: AbortSignal) =>
  async (number: number): Promise<void> => {
    const ms = limits.streamPauseMs * 2 ** (number - 1)
    await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
  }

const pathOf = (id: MigrationId): string => `/v1/migrations/${id}`
