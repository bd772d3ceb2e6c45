import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { setPower } from '../../commands/vm/set-power.ts'
import { reconcileStage } from '../../../test/reconcile-stage.ts'
import { Restoring } from '../../store/backup/restoring.ts'
import { readMovedSince } from '../../store/backup/moved-since.ts'
import { writeBackup } from '../../store/backup/write-backup.ts'
import { compareWithHost, UnknownVm } from './restore.ts'
import { outlookInWords, refusalsInWords } from './words.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { MovedSince } from '../../store/backup/moved-since.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { Words } from './restore.ts'

const NONE: Words = { end: [], leaveOut: [], noneMoved: false, poolLost: false }

/** A VM whose records were written to a file while it had this power, and what a comparison says later. */
async function stage(
  t: TestContext,
  power: 'running' | 'stopped',
  before: (on: Awaited<ReturnType<typeof reconcileStage>>) => void = () => {},
) {
  const on = await reconcileStage(t)
  on.create({ power })
  await on.idle()
  before(on)
  const file = `${on.directory}/b.vmhostd`
  const about = { madeAtMs: 1, version: '1.2.3', hostId: 'host-1' }
  writeBackup(on.directory, file, { about, files: [] })
  const compare = async (words: Words = NONE, moved = readMovedSince(on.directory)) => {
    const at = { stateDirectory: on.directory, directory: `${on.directory}/restore.new` }
    const restoring = new Restoring(file, at, { first: 600_000, count: 10 })
    try {
      const outlook = await compareWithHost(restoring.store, on.host, { words, moved, nowMs: on.clock.now() })
      return { outlook, lines: outlookInWords(outlook) }
    } finally {
      restoring.remove()
    }
  }
  const change = async (to: 'running' | 'stopped'): Promise<void> => {
    setPower(on.context, on.id, to)
    await on.idle()
  }
  return { ...on, compare, change }
}

test('a guest that was started since the backup is lost only by the word of the operator', async (t) => {
  const { id, compare, change } = await stage(t, 'stopped')
  await change('running')
  const { outlook, lines } = await compare()
  assert.deepEqual(outlook.unsaid, [id])
  assert.deepEqual(lines, ['  web-1  ENDS     its guest runs, and the record says stopped'])
  assert.deepEqual((await compare({ ...NONE, end: [id] })).outlook.unsaid, [])
})

test('a VM that is left out keeps its guest, without a record', async (t) => {
  const { id, compare, change } = await stage(t, 'stopped')
  await change('running')
  const { outlook, lines } = await compare({ ...NONE, leaveOut: [id] })
  assert.deepEqual(outlook.unsaid, [])
  assert.deepEqual(lines, ['  web-1  alone    its guest runs on, without a record (not in the file)'])
})

test('the user of a disk whose VM gets no record is in use, and that of one which has a record is its own', async (t) => {
  const { id, store, compare } = await stage(t, 'stopped')
  const userId = store.vms.get(id)?.host.userId
  assert.deepEqual((await compare()).outlook.userIdsOnHost, [])
  assert.deepEqual((await compare({ ...NONE, leaveOut: [id] })).outlook.userIdsOnHost, [userId])
})

test('a guest that runs as it did at the backup is taken over, and one that was stopped since is started', async (t) => {
  const { compare, change } = await stage(t, 'running')
  assert.deepEqual((await compare()).lines, ['  web-1  stays    its guest runs'])
  await change('stopped')
  assert.deepEqual((await compare()).lines, [
    '  web-1  starts   it has no guest now, and the record says running',
  ])
})

test('a VM whose record in the file cannot be read is left as it is, and the others are compared', async (t) => {
  const other = 'web-2' as VmId
  const network = { ipv4Address: '192.0.2.20' }
  const { directory, idle, compare } = await stage(t, 'running', (on) => on.create({ network }, other))
  await idle()
  const db = new DatabaseSync(`${directory}/b.vmhostd`)
  db.prepare("UPDATE vms SET labels = '{' WHERE id = ?").run(other)
  db.close()
  const { outlook, lines } = await compare()
  assert.deepEqual(lines, ['  web-1  stays    its guest runs', '  web-2  alone    its record cannot be read'])
  assert.deepEqual(refusalsInWords(outlook), [])
  const without = await compare({ ...NONE, leaveOut: [other] })
  assert.deepEqual(without.lines, [
    '  web-1  stays    its guest runs',
    '  web-2  alone    its guest runs on, without a record (not in the file)',
  ])
})

test('an option about a VM that is not there is refused', async (t) => {
  const { compare } = await stage(t, 'running')
  const other = 'web-9' as VmId
  await assert.rejects(compare({ ...NONE, end: [other] }), UnknownVm)
  await assert.rejects(compare({ ...NONE, leaveOut: [other] }), UnknownVm)
})

test('a VM that was released to another host since can only be left out', async (t) => {
  const { id, compare, stop, store, clock } = await stage(t, 'running')
  await stop()
  const departure = { id: 'm-1', node: 'host-2', mode: 'warm', stage: 'released', sinceMs: clock.now() }
  store.departures.set(id, departure as unknown as Departure, clock.now())
  const { outlook, lines } = await compare()
  assert.deepEqual(lines, ['  web-1  MOVED    it has moved to host-2 since, and may run there'])
  assert.deepEqual(refusalsInWords(outlook), [
    'web-1 would run here and on another host: say --leave-out VM for each',
  ])
  assert.deepEqual((await compare({ ...NONE, end: [id] })).outlook.moved, [id])
  const without = await compare({ ...NONE, leaveOut: [id] })
  assert.deepEqual(refusalsInWords(without.outlook), [])
})

const EMPTY: MovedSince = { to: new Map(), comingFrom: new Map(), stayed: new Set() }
const LOST: MovedSince = { ...EMPTY, unreadable: 'vmhostd.db cannot be read: disk I/O error' }

test('without present records, a VM that would run again is put back only if it has not moved', async (t) => {
  const { id, compare, change } = await stage(t, 'running')
  assert.deepEqual((await compare(NONE, LOST)).lines, ['  web-1  stays    its guest runs'])
  await change('stopped')
  const { outlook, lines } = await compare(NONE, LOST)
  assert.deepEqual(lines, ['  web-1  MOVED?   it has no guest here, and may run on another host by now'])
  assert.deepEqual(refusalsInWords(outlook), [
    'it is not known whether one of these has moved to another host and runs there: web-1 ' +
      '(vmhostd.db cannot be read: disk I/O error). ' +
      'Say --leave-out VM for each that has moved, and --none-moved for the others',
  ])
  const said = await compare({ ...NONE, noneMoved: true }, LOST)
  assert.deepEqual(said.lines, ['  web-1  starts   it has no guest now, and the record says running'])
  assert.deepEqual(refusalsInWords(said.outlook), [])
  const without = await compare({ ...NONE, leaveOut: [id] }, LOST)
  assert.deepEqual(refusalsInWords(without.outlook), [])
})

test('of a VM that the present records do not have it is not known whether it has moved', async (t) => {
  const { compare, change } = await stage(t, 'running')
  await change('stopped')
  const { outlook } = await compare(NONE, EMPTY)
  assert.deepEqual(refusalsInWords(outlook), [
    'it is not known whether one of these has moved to another host and runs there: web-1 ' +
      '(the present records do not show it). ' +
      'Say --leave-out VM for each that has moved, and --none-moved for the others',
  ])
})

test('the word that none has moved puts back no VM that is at another host by the present records', async (t) => {
  const { id, compare, change } = await stage(t, 'running')
  await change('stopped')
  const there = new Map([[id, 'host-2']])
  for (const moved of [
    { ...EMPTY, to: there },
    { ...EMPTY, comingFrom: there },
  ])
    assert.deepEqual((await compare({ ...NONE, noneMoved: true }, moved)).outlook.moved, [id])
})

/** A VM whose records were written to a file while it was on its way here. */
const comingStage = (t: TestContext) =>
  stage(t, 'stopped', ({ store, id }) => {
    const arrival = { id: 'a-1', source: 'https://192.0.2.2:9001', stage: 'pulling' }
    store.arrivals.set(id, arrival as unknown as Arrival, 1)
  })

test('a VM that was on its way here at the backup, and has no disk here, is still on its way', async (t) => {
  const { id, host, compare } = await comingStage(t)
  await host.storage.remove(id)
  const { outlook } = await compare()
  assert.deepEqual(refusalsInWords(outlook), [])
})

test('a VM that has come since the backup loses its disk only by the word of the operator', async (t) => {
  const { id, compare } = await comingStage(t)
  const { outlook, lines } = await compare()
  assert.deepEqual(lines, [
    '  web-1  DELETES  it has a disk, and the record is from before it came from another host, ' +
      'which may refuse it now; then its disk is removed',
  ])
  assert.deepEqual(outlook.unsaid, [id])
  assert.deepEqual((await compare({ ...NONE, end: [id] })).outlook.unsaid, [])
  assert.deepEqual((await compare({ ...NONE, leaveOut: [id] })).outlook.unsaid, [])
})

test('on a host that lost its pool, each disk is lost, and nothing looks for one', async (t) => {
  const { id, host, compare, change } = await stage(t, 'running')
  await change('stopped')
  const gone = (): never => {
    throw new Error('the pool is gone')
  }
  for (const name of ['inspect', 'list'] as const) t.mock.method(host.storage, name, gone)
  t.mock.method(host.savedStates, 'inspect', gone)
  const { outlook, lines } = await compare({ ...NONE, poolLost: true }, LOST)
  assert.deepEqual(lines, ['  web-1  alone    its disk is lost with the pool'])
  assert.deepEqual(refusalsInWords(outlook), [])
  const without = await compare({ ...NONE, poolLost: true, leaveOut: [id] }, LOST)
  assert.deepEqual(without.lines, [])
})

test('a guest that outlived its pool is ended only by the word of the operator', async (t) => {
  const { id, compare, change } = await stage(t, 'stopped')
  await change('running')
  const { outlook, lines } = await compare({ ...NONE, poolLost: true }, LOST)
  assert.deepEqual(lines, ['  web-1  ENDS     its guest runs, and the record says stopped'])
  assert.deepEqual(outlook.unsaid, [id])
})
