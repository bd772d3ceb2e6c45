import { CopyEnded } from '../../src/owners/migration/copy-places.ts'
import { HostFault } from '../../src/core/errors.ts'
import { continuedFrames } from '../../src/host/source/continued-frames.ts'
import { abortable } from '../../src/lib/abortable.ts'
import { isSourceFault } from '../../src/core/migration/source-faults.ts'
import { err, ok } from '../../src/lib/result.ts'
import type { Departures } from '../../src/api/coordination/dependencies.ts'
import type { SourceRefusal } from '../../src/core/migration/departure.ts'
import type { Frame } from '../../src/core/migration/frames.ts'
import type { NodeName } from '../../src/core/migration/offer.ts'
import type { SourceBytes } from '../../src/host/source/continued-frames.ts'
import type { Result } from '../../src/lib/result.ts'
import type { Move } from '../../src/owners/migration/moves.ts'
import type { Answered, MoveRef, SourceHost, SourceHosts } from '../../src/ports/source-host.ts'

/**
 * A moment at which the line may be cut: `before` the source has a request, `after` it has done what was asked and
 * before its answer is here, or `within` a stream, before its next chunk.
 */
export type LineMoment = {
  readonly request: keyof SourceHost
  readonly when: 'before' | 'after' | 'within'
}

/** Other hosts in the same process: a request asks what the routes of their coordination API ask. */
export class FakeSourceHosts implements SourceHosts {
  /** Daemons by their origin; undefined while that daemon is down. */
  readonly peers = new Map<string, () => Departures | undefined>()
  /** Common name of this host's node certificate. */
  node = 'host-1' as NodeName
  /** Whether the line to other hosts is cut. */
  isCut = false
  /** Cuts the line for the one request that is in this moment. */
  cuts: (moment: LineMoment) => boolean = () => false

  at(origin: string): SourceHost {
    return new FakeSourceHost(this, origin)
  }
}

class FakeSourceHost implements SourceHost {
  readonly #hosts: FakeSourceHosts
  readonly #origin: string

  constructor(hosts: FakeSourceHosts, origin: string) {
    this.#hosts = hosts
    this.#origin = origin
  }

  manifest: SourceHost['manifest'] = (id, signal) =>
    this.#ask('manifest', signal, (peer) => peer.manifest({ id, node: this.#hosts.node }))

  ensureRound: SourceHost['ensureRound'] = (move, number, signal) =>
    this.#ask('ensureRound', signal, (peer) => peer.ensureRound(this.#moveOf(move), number, signal))

  roundFrames: SourceHost['roundFrames'] = (move, { number, sizeBytes }, signal) =>
    this.#frames('roundFrames', { sizeBytes, signal }, ({ reads }, from) =>
      reads.roundFrames(this.#moveOf(move), { number, from }, signal),
    )

  memoryFrames: SourceHost['memoryFrames'] = (move, sizeBytes, signal) =>
    this.#frames('memoryFrames', { sizeBytes, signal }, ({ reads }, from) =>
      reads.memoryFrames(this.#moveOf(move), from, signal),
    )

  handOver: SourceHost['handOver'] = (move, signal) =>
    this.#ask('handOver', signal, (peer) => peer.handOver(this.#moveOf(move), signal))

  image: SourceHost['image'] = (id, sha256, signal) =>
    this.#bytes('image', signal, ({ reads }) => reads.image({ id, node: this.#hosts.node }, sha256, signal))

  console: SourceHost['console'] = async (move, signal) => {
    const answer = await this.#ask('console', signal, ({ reads }) =>
      reads.console(this.#moveOf(move), signal),
    )
    return !answer.ok && answer.error === 'unknown' ? ok(undefined) : answer
  }

  release: SourceHost['release'] = async (move, lastRound, signal) =>
    withoutValue(await this.#ask('release', signal, (peer) => peer.release(this.#moveOf(move), lastRound)))

  abort: SourceHost['abort'] = async (move, signal) =>
    withoutValue(await this.#ask('abort', signal, (peer) => peer.abort(this.#moveOf(move))))

  heldPackets: SourceHost['heldPackets'] = (move, from, signal) =>
    this.#ask('heldPackets', signal, ({ reads }) => reads.heldPackets(this.#moveOf(move), from, signal))

  #moveOf({ migrationId, arrival }: MoveRef): Move {
    return { id: migrationId, node: this.#hosts.node, arrival }
  }

  /** Throws if the line is cut in this moment, or the peer is down. */
  #line(moment: LineMoment): Departures {
    const { peers, isCut, cuts } = this.#hosts
    const departures = isCut || cuts(moment) ? undefined : peers.get(this.#origin)?.()
    if (departures === undefined) throw this.#unreachable()
    return departures
  }

  #unreachable(cause?: unknown): HostFault {
    return new HostFault('source_unreachable', `asking the source ${this.#origin}`, { cause })
  }

  async #ask<T>(
    request: keyof SourceHost,
    signal: AbortSignal,
    asked: (peer: Departures) => Answered<T>,
  ): Answered<T> {
    signal.throwIfAborted()
    try {
      const answer = await abortable(asked(this.#line({ request, when: 'before' })), signal)
      this.#line({ request, when: 'after' })
      return answer
    } catch (error) {
      throw this.#answered(error, signal)
    }
  }

  async #bytes(
    request: keyof SourceHost,
    signal: AbortSignal,
    asked: (peer: Departures) => Answered<AsyncIterable<Uint8Array>>,
  ): Answered<SourceBytes> {
    const answer = await this.#ask(request, signal, asked)
    if (!answer.ok) return answer
    const iterator = answer.value[Symbol.asyncIterator]()
    try {
      // The route answers with a problem as long as no byte went out.
      const first = await iterator.next()
      return ok(this.#chunks(request, signal, first, iterator))
    } catch (error) {
      if (error instanceof CopyEnded) return err('busy')
      throw this.#answered(error, signal)
    }
  }

  async *#chunks(
    request: keyof SourceHost,
    signal: AbortSignal,
    first: IteratorResult<Uint8Array>,
    iterator: AsyncIterator<Uint8Array>,
  ): SourceBytes {
    try {
      for (let next = first; next.done !== true; next = await iterator.next()) {
        this.#line({ request, when: 'within' })
        // The connection copies it: the source uses its room again.
        yield Uint8Array.from(next.value)
        signal.throwIfAborted()
      }
    } catch (error) {
      throw this.#cut(error, signal)
    } finally {
      await iterator.return?.()
    }
  }

  async #frames(
    request: keyof SourceHost,
    { sizeBytes, signal }: { readonly sizeBytes: number; readonly signal: AbortSignal },
    asked: (peer: Departures, from: number) => Answered<AsyncIterable<Uint8Array>>,
  ): Answered<AsyncIterable<Frame>> {
    const open = (from: number): Answered<SourceBytes> =>
      this.#bytes(request, signal, (peer) => asked(peer, from))
    const first = await open(0)
    if (!first.ok) return first
    return ok(continuedFrames({ first: first.value, open, sizeBytes, pause: async () => {} }))
  }

  /** Returns what the line makes of an error at the source before it answers: a problem with status 503. */
  #answered(error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted || !(error instanceof HostFault) || !isSourceFault(error.code))
      return this.#cut(error, signal)
    return new HostFault(error.code, `asking the source ${this.#origin}`, { cause: error })
  }

  /** Returns what the line makes of an error at the source in the midst of its answer: a connection that is cut. */
  #cut(error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason
    if (error instanceof HostFault && error.code === 'source_unreachable') return error
    return error instanceof HostFault || error instanceof CopyEnded ? this.#unreachable(error) : error
  }
}

const withoutValue = (answer: Result<unknown, SourceRefusal>): Result<void, SourceRefusal> =>
  answer.ok ? ok(undefined) : answer
