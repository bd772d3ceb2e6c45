import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { readOffer } from './read-offer.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { Departures } from '../../api/coordination/dependencies.ts'

const source = 'https://192.0.2.2:9001'
const offer = { source, migrationId: 'move-1' as MigrationId, refuseMonitor: () => undefined }

test('a source that is silent for too long is unreachable, and is not a bug', async () => {
  const host = new FakeHost(new FakeClock(), 'store-1')
  const silent = { manifest: () => new Promise(() => {}) } as unknown as Departures
  host.sourceHosts.peers.set(source, () => silent)
  const late = new AbortController()
  const reading = readOffer(host, offer, late.signal)
  late.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
  const answer = await reading
  assert.ok(!answer.ok && 'known' in answer.error)
  assert.equal(answer.error.code, 'source_unreachable')
  assert.match(answer.error.message, /no answer for 10 s/)
})
