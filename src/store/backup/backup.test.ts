import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { ageStore } from '../../../test/age-store.ts'
import { restoringOf } from '../../../test/restoring-of.ts'
import { StoreStage, range, sha256Of } from '../../../test/store-stage.ts'
import { limits } from '../../config/limits.ts'
import { lacksEvents } from '../../core/events/history.ts'
import { SCHEMA_VERSION } from '../database/migrations.ts'
import { StateDirectoryInUse } from '../database/open-database.ts'
import { keepSchemaCopy, schemaCopyPath } from '../database/schema-copies.ts'
import { Store } from '../store.ts'
import { readBackup } from './read-backup.ts'
import { writeBackup } from './write-backup.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }
const about = { madeAtMs: 5000, version: '1.2.3', hostId: 'host-1' }
const BUSY: { backupBusyMs: number } = limits
const NOW = 1_800_000_000_000
const refusal = {
  kind: 'admission_refused',
  vmId: 'web-1' as VmId,
  code: 'insufficient_capacity',
  detail: 'the host is short',
} as const
const files = [{ path: '/etc/vmhostd/config.toml', mode: 0o644, content: Buffer.from('# mine\n') }]

/** Puts the file back as the only process of the state directory. */
function putBack(stage: StoreStage, file: string, leftOut: readonly VmId[] = []): string | undefined {
  let kept: string | undefined
  stage.reopen(() => {
    kept = restoringOf(stage, file).putBack(leftOut, NOW)
  })
  return kept
}

test('damaged records cannot be copied: the error says what to do, and nothing is left', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/damaged.db`
  writeFileSync(file, 'not a database'.repeat(999))
  assert.throws(() => restoringOf(stage, file), /damaged\.db is damaged: .*vmhostd recover/)
  assert.ok(!existsSync(`${stage.directory}/restore.new`))
})

test('a second restore that may not begin leaves the copy of the first as it is', (t) => {
  const stage = new StoreStage(t)
  const [before, after] = [`${stage.directory}/before.db`, `${stage.directory}/after.db`]
  writeBackup(stage.directory, before, { about, files })
  stage.insertVm('web-1', image)
  writeBackup(stage.directory, after, { about, files })
  stage.reopen(() => {
    const first = restoringOf(stage, before, true)
    assert.throws(() => restoringOf(stage, after, true), StateDirectoryInUse)
    first.putBack([], NOW)
  })
  assert.deepEqual(stage.store.vms.ids(), [])
})

test('a backup of a store in use has what was committed, for root alone, in one file', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about, files })
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.deepEqual(
    {
      ...readBackup(file),
      files: readBackup(file).files.map((one) => ({ ...one, content: Buffer.from(one.content) })),
    },
    { schemaVersion: SCHEMA_VERSION, about, files },
  )
  const before = stage.store.vms.get(id)
  stage.insertVm('web-2', image)
  const kept = putBack(stage, file)
  assert.deepEqual(stage.store.vms.list({}), [before])
  assert.ok(!existsSync(`${stage.directory}/restore.new`))
  assert.ok(kept !== undefined)
  assert.deepEqual(idsIn(kept), ['web-1', 'web-2'])
})

function idsIn(path: string): unknown[] {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    return db
      .prepare('SELECT id FROM vms ORDER BY id')
      .all()
      .map(({ id }) => id)
  } finally {
    db.close()
  }
}

test('records that were put back are the same store, and give out no revision a second time', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  const { storeId } = stage.store
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about, files: [] })
  const change = (n: number): number =>
    stage.store.vms.changeMetadata(id, { labels: { n: String(n) }, protected: false }, 1).revision
  let newest = 0
  for (let n = 0; n < 10; n += 1) newest = change(n)
  putBack(stage, file)
  assert.equal(stage.store.storeId, storeId)
  assert.ok(change(11) > newest)
})

test('a clock that was set back gives out no number of the replaced records a second time', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about, files: [] })
  const change = (): number => stage.store.vms.changeMetadata(id, { labels: {}, protected: true }, 1).revision
  stage.reopen(() => {
    const db = new DatabaseSync(`${stage.directory}/vmhostd.db`)
    db.prepare("UPDATE meta SET value = ? WHERE key = 'revisions'").run(String(NOW * 1000))
    db.close()
  })
  const newest = change()
  stage.reopen(() => restoringOf(stage, file).putBack([], 0))
  assert.ok(change() > newest)
})

test('a reader of any earlier number is informed that it may lack something, and one that lists the host after it is not', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  stage.insertVm('web-1', image)
  const known = [1, stage.store.events.newest]
  writeBackup(stage.directory, file, { about, files: [] })
  stage.insertVm('web-2', image)
  known.push(stage.store.events.newest)
  putBack(stage, file)
  known.push(stage.store.events.newest - 1)
  for (const number of known) assert.ok(lacksEvents(stage.store.events, number), String(number))
  const { newest } = stage.store.events
  // The events of the backup are removed with these, and known.at(-1) is still of another history.
  const many = Array.from({ length: limits.eventsKeptMin }, () => refusal)
  stage.store.events.add(limits.eventsAgeMsMax + 2000, ...many)
  assert.deepEqual(
    stage.store.events.list({ after: 0, limit: 2 * limits.eventsKeptMin }).map(({ body }) => body),
    many,
  )
  for (const number of known) assert.ok(lacksEvents(stage.store.events, number), String(number))
  assert.ok(!lacksEvents(stage.store.events, newest))
})

test('records that are put back twice, with none to be read in between, do not give out a number twice', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  stage.insertVm('web-1', image)
  writeBackup(stage.directory, file, { about, files: [] })
  const restore = (nowMs: number): void =>
    stage.reopen(() => {
      writeFileSync(`${stage.directory}/vmhostd.db`, 'not a database')
      restoringOf(stage, file).putBack([], nowMs)
    })
  restore(NOW)
  stage.insertVm('web-2', image)
  const { newest } = stage.store.events
  restore(NOW + 3_600_000)
  stage.insertVm('web-3', image)
  stage.insertVm('web-4', image)
  assert.ok(lacksEvents(stage.store.events, newest))
})

test('each restore keeps the records that it replaces under a name of their own', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  stage.insertVm('old-1', image)
  writeBackup(stage.directory, file, { about, files: [] })
  stage.insertVm('precious-1', image)
  const first = putBack(stage, file) ?? assert.fail()
  const second = putBack(stage, file) ?? assert.fail()
  assert.notEqual(first, second)
  assert.deepEqual([idsIn(first), idsIn(second)], [['old-1', 'precious-1'], ['old-1']])
})

test('a log of records that cannot be read stays beside them, and beside no others', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  stage.insertVm('web-1', image)
  writeBackup(stage.directory, file, { about, files: [] })
  const present = `${stage.directory}/vmhostd.db`
  let first = ''
  stage.reopen(() => {
    writeFileSync(present, 'not a database')
    writeFileSync(`${present}-wal`, 'its log')
    first = restoringOf(stage, file).putBack([], NOW) ?? ''
  })
  const second = putBack(stage, file) ?? assert.fail()
  assert.equal(readFileSync(`${first}-wal`, 'utf8'), 'its log')
  assert.ok(!existsSync(`${second}-wal`))
})

test('records that cannot be read are kept as they are, and the revisions go on above any of theirs', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about, files: [] })
  const change = (): number => stage.store.vms.changeMetadata(id, { labels: {}, protected: true }, 1).revision
  let revision = change()
  // Each process begins a block of numbers, as opening the copy of the backup does.
  for (let block = 0; block < 3; block += 1) {
    stage.reopen()
    revision = change()
  }
  stage.reopen(() => {
    writeFileSync(`${stage.directory}/vmhostd.db`, 'not a database')
    // The clock of the host was set back.
    const kept = restoringOf(stage, file).putBack([], 0)
    assert.equal(readFileSync(kept ?? '', 'utf8'), 'not a database')
  })
  assert.ok(change() > revision)
})

/**
 * A store, a backup of its first VM, and what a killed daemon leaves: the commit of the second VM is in the log alone.
 */
function killedStage(t: TestContext) {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  stage.insertVm('web-1', image)
  writeBackup(stage.directory, file, { about, files: [] })
  stage.insertVm('web-2', image)
  const present = `${stage.directory}/vmhostd.db`
  const left = new Map([present, `${present}-wal`].map((path) => [path, readFileSync(path)]))
  const leave = (): void => {
    for (const [path, content] of left) writeFileSync(path, content)
  }
  return { stage, file, present, left, leave }
}

test('the log of a damaged database is not replayed into the records that replace it', (t) => {
  const { stage, file, present, left } = killedStage(t)
  const log = left.get(`${present}-wal`) ?? assert.fail('there is no log')
  assert.ok(log.length > 0)
  stage.reopen(() => {
    writeFileSync(present, 'not a database')
    writeFileSync(`${present}-wal`, log)
    const kept = restoringOf(stage, file).putBack([], NOW)
    assert.ok(!existsSync(`${present}-wal`))
    assert.deepEqual(readFileSync(`${kept}-wal`), log)
  })
  assert.deepEqual(stage.store.vms.ids(), ['web-1'])
})

test('records whose replacement cannot be flushed to the disk stay whole, with their log', (t) => {
  const { stage, file, left, leave } = killedStage(t)
  const fail = (path: string): void => {
    if (path === `${stage.directory}/restore.new/vmhostd.db`) throw new Error('the disk is full')
  }
  stage.reopen(() => {
    leave()
    assert.throws(() => restoringOf(stage, file).putBack([], NOW, { flush: fail }), /the disk is full/)
    for (const [path, content] of left) assert.deepEqual(readFileSync(path), content)
  })
  assert.deepEqual(stage.store.vms.ids(), ['web-1', 'web-2'])
})

test('a replacement that ends after the log was removed leaves the present records whole', (t) => {
  const { stage, file, present, leave } = killedStage(t)
  const end = (): void => {
    if (!existsSync(`${present}-wal`)) throw new Error('the disk failed')
  }
  stage.reopen(() => {
    leave()
    assert.throws(() => restoringOf(stage, file).putBack([], NOW, { flush: end }), /the disk failed/)
  })
  assert.deepEqual(stage.store.vms.ids(), ['web-1', 'web-2'])
})

test('a log whose records were moved aside alone is not removed', (t) => {
  const { stage, file, present, left, leave } = killedStage(t)
  stage.reopen(() => {
    leave()
    renameSync(present, `${present}.aside`)
    assert.throws(() => restoringOf(stage, file).putBack([], NOW), /db-wal has changes .* move it aside too/)
    assert.deepEqual(readFileSync(`${present}-wal`), left.get(`${present}-wal`))
    renameSync(`${present}.aside`, present)
  })
  assert.deepEqual(stage.store.vms.ids(), ['web-1', 'web-2'])
})

test('present records that another process reads are not replaced, because their log cannot be folded', (t) => {
  t.mock.property(BUSY, 'backupBusyMs', 1)
  const { stage, file, present, leave } = killedStage(t)
  stage.reopen(() => {
    leave()
    const reader = new DatabaseSync(present, { readOnly: true })
    reader.exec('BEGIN; SELECT * FROM vms')
    assert.throws(() => restoringOf(stage, file).putBack([], NOW), /another process reads/)
    assert.ok(existsSync(`${present}-wal`))
    assert.deepEqual(readdirSync(`${stage.directory}/copies`), [])
    reader.close()
  })
  assert.deepEqual(stage.store.vms.ids(), ['web-1', 'web-2'])
  putBack(stage, file)
  assert.deepEqual(stage.store.vms.ids(), ['web-1'])
})

test('a VM that is left out has no record, and everything else is put back', (t) => {
  const stage = new StoreStage(t)
  const left = stage.insertVm('web-1', image)
  stage.insertVm('web-2', image)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about, files: [] })
  putBack(stage, file, [left])
  assert.deepEqual(stage.store.vms.ids(), ['web-2'])
  assert.equal(stage.store.vms.inputs('web-2' as VmId).request, '{}')
})

test('a copy from before a change of the schema can be put back, and is lifted again', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  stage.reopen(() => ageStore(stage.directory, SCHEMA_VERSION - 1))
  stage.insertVm('web-2', image)
  const copy = schemaCopyPath(stage.directory, SCHEMA_VERSION - 1)
  assert.deepEqual(readBackup(copy), { schemaVersion: SCHEMA_VERSION - 1, files: [] })
  putBack(stage, copy)
  assert.deepEqual(stage.store.vms.ids(), ['web-1'])
})

test('records of a newer build are replaced by the copy that it made', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  stage.reopen(() => {
    const db = new DatabaseSync(`${stage.directory}/vmhostd.db`)
    keepSchemaCopy(db, stage.directory)
    db.exec(`ALTER TABLE vms ADD COLUMN later TEXT; PRAGMA user_version = ${SCHEMA_VERSION + 1}`)
    db.close()
    assert.throws(() => new Store(stage.directory, range), /copies\/schema-\d+\.db/)
    restoringOf(stage, schemaCopyPath(stage.directory, SCHEMA_VERSION)).putBack([], NOW)
  })
  assert.deepEqual(stage.store.vms.ids(), ['web-1'])
})

test('nothing is put back while a daemon has the state directory', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about, files: [] })
  stage.insertVm('web-2', image)
  assert.throws(() => restoringOf(stage, file).putBack([], NOW), /another vmhostd works on/)
  stage.reopen()
  assert.deepEqual(stage.store.vms.ids(), ['web-1', 'web-2'])
})

test('what is not a backup, or of a newer build, is refused with its reason', (t) => {
  const stage = new StoreStage(t)
  const at = (name: string): string => `${stage.directory}/${name}`
  writeFileSync(at('text'), 'not a database, but a text of some length')
  assert.throws(() => readBackup(at('text')), /cannot be put back/)
  new DatabaseSync(at('empty')).close()
  assert.throws(
    () => readBackup(at('empty')),
    (error) => error instanceof Error && /no records of vmhostd/.test(String(error.cause)),
  )
  assert.throws(() => readBackup(at('missing')), /is not there/)
  writeBackup(stage.directory, at('newer'), { about, files: [] })
  const db = new DatabaseSync(at('newer'))
  db.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`)
  db.close()
  assert.throws(
    () => readBackup(at('newer')),
    (error) => error instanceof Error && /use the vmhostd that wrote it/.test(String(error.cause)),
  )
})

test('from the lock on no daemon can start before the records are put back', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about, files: [] })
  stage.reopen(() => {
    const one = restoringOf(stage, file, true)
    assert.throws(() => new Store(stage.directory, range), /another vmhostd works on/)
    one.putBack([], NOW)
  })
})
