import { watchVm } from '../../client/watch.ts'
import type { Sight, WatchOptions } from '../../client/watch.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Daemon } from '../command.ts'
import type { Move, Sides } from './hosts.ts'

/**
 * Yields what both hosts have of a VM once both have answered, and after each change at one of them, until the destination
 * has it no more. Throws CtlError if a host refuses.
 */
export async function* watchBoth(
  { source, destination, id }: Move,
  options: WatchOptions,
): AsyncGenerator<Sight<Sides>> {
  const over = new AbortController()
  const signal = AbortSignal.any([options.signal, over.signal])
  const events: (Event | { readonly thrown: unknown })[] = []
  let news = Promise.withResolvers<void>()
  const follow = async (side: Event['side'], daemon: Daemon): Promise<void> => {
    try {
      for await (const sight of watchVm(daemon.client, id, { ...options, signal, wasThere: true })) {
        events.push({ side, sight })
        news.resolve()
      }
    } catch (error) {
      events.push({ thrown: signal.aborted ? signal.reason : daemon.failed(error) })
      news.resolve()
    }
  }
  void follow('here', source)
  void follow('there', destination)
  let sides: Sides = {}
  try {
    for (;;) {
      await news.promise
      news = Promise.withResolvers()
      for (const event of events.splice(0)) {
        if ('thrown' in event) throw event.thrown
        const { side, sight } = event
        if (sight.kind === 'silent') yield sight
        else if (sight.kind === 'gone' && side === 'there') return yield sight
        else {
          sides = { ...sides, [side]: sight.kind === 'gone' ? undefined : sight.seen }
          // One host alone does not show how far the move is.
          if ('here' in sides && 'there' in sides) yield { kind: 'there', seen: sides, etag: '' }
        }
      }
    }
  } finally {
    over.abort()
  }
}

type Event = { readonly side: 'here' | 'there'; readonly sight: Sight<Vm> }
