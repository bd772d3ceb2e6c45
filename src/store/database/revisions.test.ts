import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { pick, randomFrom } from '../../../test/sim/random.ts'
import { lockStore } from '../../../test/locked-store.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { limits } from '../../config/limits.ts'
import { lacksChanges, lacksEvents } from '../../core/events/history.ts'
import { Store } from '../store.ts'
import type { VmId } from '../../core/ids.ts'
import { Revisions } from './revisions.ts'
import { Transactions } from './transactions.ts'

const SEEDS = 200
const STEPS = 60
/** Small, so that each sequence uses up many blocks. */
const BLOCK = 12
const NUMBERS_MAX = BLOCK / 2
const DOINGS = ['change', 'rehearsal', 'failure', 'lone write', 'restart'] as const

/** Runs one process over a database and reports the revisions that it gives out. */
function life(db: DatabaseSync, give: (revision: number) => void) {
  const row = db.prepare('SELECT value FROM meta').get() as { value: number }
  const storage = {
    reserved: () => row.value,
    reserve: (upTo: number) => void db.prepare('UPDATE meta SET value = ?').run(upTo),
  }
  const revisions = new Revisions(storage, BLOCK)
  const transactions = new Transactions(db, { prepare: () => revisions.prepare(), onCommit: () => {} })
  const use = (count: number): void => {
    for (let n = 0; n < count; n += 1) give(revisions.next())
  }
  return {
    change: (count: number) => transactions.commit(() => use(count)),
    rehearsal: (count: number) => transactions.rehearse(() => use(count)),
    failure: (count: number) =>
      assert.throws(() =>
        transactions.commit(() => {
          use(count)
          throw new Error('on purpose')
        }),
      ),
    'lone write': () => transactions.writeAlone(() => use(1)),
  }
}

test('no sequence of changes, rehearsals, failures and restarts gives a revision out twice, or a lower one', () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const random = randomFrom(seed)
    const db = new DatabaseSync(':memory:')
    db.exec('CREATE TABLE meta (value INTEGER); INSERT INTO meta VALUES (0)')
    const done: string[] = []
    let last = 0
    const give = (revision: number): void => {
      assert.ok(revision > last, `seed ${seed}: ${revision} after ${last}: ${done.join()}`)
      last = revision
    }
    let now = life(db, give)
    for (let step = 0; step < STEPS; step += 1) {
      const count = 1 + Math.floor(random() * NUMBERS_MAX)
      const doing = pick(random, DOINGS)
      done.push(`${doing} ${count}`)
      if (doing === 'restart') now = life(db, give)
      else now[doing](count)
    }
    db.close()
  }
})

test('a rehearsal at the end of a block does not undo a reservation', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  const change = (vm: VmId): number =>
    stage.store.vms.changeMetadata(vm, { labels: {}, protected: false }, 1).revision
  const use = (count: number): void => {
    for (let n = 0; n < count; n += 1) change(id)
  }
  stage.store.transaction(() => use(limits.revisionsReserved / 2))
  stage.store.rehearse(() => use(10))
  stage.store.transaction(() => use(limits.revisionsReserved / 2))
  const last = change(id)
  stage.reopen()
  const next = change(id)
  assert.ok(next > last, `${next} after ${last}`)
})

test('a new store gives out no number of a lost one, and a reader of the lost one is informed', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'revisions-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const open = (nowMs: number): Store => new Store(directory, { first: 600_000, count: 1 }, { nowMs })
  const hourMs = 3_600_000
  const known: number[] = []
  for (const nowMs of [1000 * hourMs, 1001 * hourMs]) {
    const store = open(nowMs)
    // A restart skips numbers, so that a number of the lost store may be below the newest one.
    store.close()
    const again = open(nowMs + 1)
    again.events.add(nowMs, { kind: 'host_maintenance', from: 'schedulable', to: 'cordoned' })
    for (const number of known) assert.ok(lacksEvents(again.events, number), String(number))
    assert.ok(!lacksEvents(again.events, 0), 'a reader that asks for all gets all')
    known.push(...again.events.list({ after: 0, limit: 10 }).map(({ sequence }) => sequence))
    known.push(again.events.newest)
    assert.ok(!lacksEvents(again.events, known.at(-1) ?? 0))
    again.close()
    rmSync(`${directory}/vmhostd.db`)
  }
})

test('a reader that has seen progress which was lost with a process is informed', async (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  const show = (sinceMs: number): void => {
    stage.store.vms.recordProgress(id, { observed: { state: 'running', sinceMs }, nowMs: 2 })
  }
  show(2)
  const { newest: written } = stage.store.events
  const unlock = lockStore(stage.directory)
  show(3)
  const { newest: seen } = stage.store.events
  assert.equal(stage.store.vms.get(id)?.revision, seen)
  assert.ok(!lacksChanges(stage.store.events, seen))
  stage.reopen()
  await unlock()
  assert.deepEqual(stage.store.vms.changedAfter(seen, 10), [], 'the record is the old one')
  assert.ok(lacksChanges(stage.store.events, seen))
  assert.ok(!lacksChanges(stage.store.events, written))
  assert.ok(!lacksChanges(stage.store.events, stage.store.events.newest))
  show(4)
  assert.ok(!lacksChanges(stage.store.events, stage.store.events.newest))
})
