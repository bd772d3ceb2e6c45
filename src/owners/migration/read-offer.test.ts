import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import { readOffer } from './read-offer.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { SourceHost } from '../../ports/source-host.ts'

const offer = {
  source: 'https://192.0.2.1:9001',
  migrationId: 'move-7' as MigrationId,
  refuseMonitor: () => undefined,
}

/** A host whose source answers so. */
function hostWith(manifest: SourceHost['manifest']): Parameters<typeof readOffer>[0] {
  const { monitors } = new FakeHost(new FakeClock(), 'store-1')
  return { monitors, sourceHosts: { at: () => ({ manifest }) as SourceHost } }
}

test('a source that does not answer in time is unreachable', async () => {
  const end = new AbortController()
  const host = hostWith((_id, signal) => abortable(new Promise<never>(() => {}), signal))
  const read = readOffer(host, offer, end.signal)
  end.abort(new DOMException('too late', 'TimeoutError'))
  const message = 'asking the source https://192.0.2.1:9001: no answer within 10 s'
  const unknown = { known: false, code: 'source_unreachable', retry: 'backoff', message }
  assert.deepEqual(await read, { ok: false, error: unknown })
  assert.ok(limits.sourceConnectMs < limits.offerReadMs, 'the words about the connection come first')
})

test('a bug is not taken for a source that does not answer, even if the time is over', async () => {
  const host = hostWith(() => Promise.reject(new TypeError('x is undefined')))
  await assert.rejects(readOffer(host, offer, AbortSignal.abort()), TypeError)
})
