import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage } from '../../../test/command-stage.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { offered } from '../../../test/offered-vm.ts'
import { recordOf } from '../../../test/record.ts'
import { takeVm } from '../../commands/migration/take-vm.ts'
import { MIB } from '../../lib/byte-units.ts'
import { ok } from '../../lib/result.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { silentLog } from '../../log/log.ts'
import { pullDisk } from './pull-disk.ts'
import { Pulling } from './pulling.ts'
import type { SourceHost } from '../../ports/source-host.ts'

test('a source whose disk is larger than what was admitted gets no room for it', async (t) => {
  const { context, id, store, accepted } = commandStage(t)
  const request = offered(id, recordOf())
  accepted(takeVm(context, id, request))
  const record = store.vms.get(id) ?? assert.fail('it was not taken')
  const host = new FakeHost(new FakeClock({ nowMs: 1000 }), store.storeId)
  const asked: string[] = []
  const sizeBytes = record.desired.disk.sizeMib * MIB + 1
  const hostile = {
    ensureRound: async () => ok({ sizeBytes, changedBytes: 0 }),
    roundFrames: async () => {
      asked.push('frames')
      return ok((async function* () {})())
    },
  } as Partial<SourceHost> as SourceHost
  const arrivals = {
    store,
    host: Object.assign(host, { sourceHosts: { at: () => hostile } }),
    poke: () => {},
    betweenPasses: async () => undefined,
    places: new Semaphore(1),
    log: silentLog,
  }
  const pulling = new Pulling(arrivals, record, new AbortController().signal)
  await assert.rejects(pullDisk(pulling, request.manifest), { name: 'Hindered', code: 'source_refused' })
  assert.deepEqual(asked, [])
})
