import assert from 'node:assert/strict'
import fs, {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { restoringOf } from '../../../test/restoring-of.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { readBackup } from './read-backup.ts'
import { readReplaced } from './replaced-records.ts'
import { UnflushedRecords } from './restoring.ts'
import { writeBackup } from './write-backup.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import type { Launch } from '../../core/vm/record.ts'

test('a restore removes the copy that a killed one left unfinished, because its name is not used again', (t) => {
  const stage = new StoreStage(t)
  const { directory } = stage
  const file = `${directory}/b.vmhostd`
  writeBackup(directory, file, { about: { madeAtMs: 1, version: '1.2.3', hostId: 'host-1' }, files: [] })
  const copies = `${directory}/copies`
  let left: readonly string[] = []
  stage.reopen(() => {
    mkdirSync(copies)
    writeFileSync(`${copies}/before-restore-20261129T171147Z.db.new`, 'half')
    restoringOf(stage, file).putBack([], Date.UTC(2027, 0, 15))
    left = readdirSync(copies)
  })
  assert.deepEqual(left, ['before-restore-20270115T000000Z.db'])
})

test('replaced records that cannot be read, but are not damaged, are not taken for lost', () => {
  const db = new DatabaseSync(':memory:')
  assert.deepEqual(readReplaced(db), { revisions: 0, userIds: [], releases: [], maintenance: undefined })
  db.close()
  assert.throws(() => readReplaced(db))
})

const about = { about: { madeAtMs: 1, version: '1.2.3', hostId: 'host-1' }, files: [] }
const NOW = 1_800_000_000_000
const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }

test('a user id of the replaced records, of a VM that is left out or of a disk on the host goes to no other VM', (t) => {
  const stage = new StoreStage(t)
  const { directory } = stage
  const [kept, out] = [stage.insertVm('kept', image), stage.insertVm('out', image)]
  const file = `${directory}/b.vmhostd`
  writeBackup(directory, file, about)
  const userIdOf = (id: VmId) => stage.store.vms.get(id)?.host.userId
  stage.insertVm('younger', image)
  stage.reopen(() => {
    restoringOf(stage, file).putBack([out], NOW, { userIdsOnHost: [600_000, 600_004] as UserId[] })
  })
  const created = ['a', 'b'].map((id) => userIdOf(stage.insertVm(id, image)))
  assert.deepEqual([userIdOf(kept), ...created], [600_000, 600_003, 600_005])
  stage.store.releaseUserIds()
  stage.removeVm('b' as VmId, 2000)
  stage.reopen()
  assert.equal(userIdOf(stage.insertVm('c', image)), 600_004)
})

test('a launch that is put back says that its end is not an exit: what ended its guest since is not known', (t) => {
  const stage = new StoreStage(t)
  const { directory } = stage
  const [launched, other] = [stage.insertVm('launched', image), stage.insertVm('other', image)]
  const launch = { bootId: 'this-boot', atMs: 1000, compute: { cpuMillicores: 1000, memoryMib: 256 } }
  const observed = stage.store.vms.get(launched)?.observed ?? assert.fail()
  stage.store.vms.recordProgress(launched, { observed, launch: launch as Launch, nowMs: 1000 })
  const file = `${directory}/b.vmhostd`
  writeBackup(directory, file, about)
  stage.reopen(() => void restoringOf(stage, file).putBack([], NOW))
  assert.deepEqual(stage.store.vms.get(launched)?.launch, { ...launch, endsQuietly: true })
  assert.equal(stage.store.vms.get(other)?.launch, undefined)
})

/** Changes a backup, or the records of a daemon that has ended. */
function changed(file: string, sql: string): void {
  const db = new DatabaseSync(file)
  db.exec(sql)
  db.close()
}

test('a user id of a VM that is left out goes to no other VM, also if no present records name it', (t) => {
  const stage = new StoreStage(t)
  const out = stage.insertVm('out', image)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, about)
  stage.reopen(() => {
    writeFileSync(`${stage.directory}/vmhostd.db`, 'not a database')
    restoringOf(stage, file).putBack([out], NOW)
  })
  assert.equal(stage.store.vms.get(stage.insertVm('a', image))?.host.userId, 600_001)
})

test('a VM that is left out leaves no host key of its guest to the next one with its id', (t) => {
  const stage = new StoreStage(t)
  const out = stage.insertVm('out', image)
  stage.store.sshHostKeys.pin(out, 'SHA256:former', 1000)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, about)
  stage.reopen(() => void restoringOf(stage, file).putBack([out], NOW))
  assert.equal(stage.store.sshHostKeys.get(stage.insertVm('out', image)), undefined)
})

test('a backup with a damaged page is refused, and so is one of another format', (t) => {
  const stage = new StoreStage(t)
  const refused = (file: string, because: RegExp): void =>
    assert.throws(
      () => readBackup(file),
      (error) => error instanceof Error && because.test(String(error.cause)),
    )
  const [damaged, other] = [`${stage.directory}/damaged.vmhostd`, `${stage.directory}/other.vmhostd`]
  for (const file of [damaged, other]) writeBackup(stage.directory, file, about)
  const db = new DatabaseSync(damaged)
  const first = (sql: string): number => Number(Object.values(db.prepare(sql).get() ?? {})[0])
  const bytes = first('PRAGMA page_size')
  const page = first("SELECT rootpage FROM sqlite_schema WHERE name = 'events'")
  db.close()
  const fd = openSync(damaged, 'r+')
  writeSync(fd, Buffer.alloc(bytes, 0xff), 0, bytes, (page - 1) * bytes)
  closeSync(fd)
  refused(damaged, /damaged/)
  changed(other, 'UPDATE backup_about SET format = 2')
  refused(other, /its format is 2/)
})

test('the numbers of records that are put back go on above their own, whatever the clock says', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  const newest = NOW * 1000
  stage.reopen(() =>
    changed(`${stage.directory}/vmhostd.db`, `UPDATE meta SET value = ${newest} WHERE key = 'revisions'`),
  )
  writeBackup(stage.directory, file, about)
  stage.reopen(() => {
    writeFileSync(`${stage.directory}/vmhostd.db`, 'not a database')
    restoringOf(stage, file).putBack([], 0)
  })
  assert.ok(stage.store.events.newest > newest)
})

test('a launch that cannot be read keeps no records from being put back', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  const file = `${stage.directory}/b.vmhostd`
  stage.reopen(() => changed(`${stage.directory}/vmhostd.db`, "UPDATE vms SET launch = '{'"))
  writeBackup(stage.directory, file, about)
  stage.reopen(() => void restoringOf(stage, file).putBack([], NOW))
  assert.deepEqual(stage.store.vms.ids(), [id])
})

test('records that are put back keep nothing of the files of their backup, and can be backed up again', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  const content = Buffer.from('the private key of the host')
  writeBackup(stage.directory, file, { ...about, files: [{ path: '/etc/key', mode: 0o600, content }] })
  stage.reopen(() => void restoringOf(stage, file).putBack([], NOW))
  assert.ok(!readFileSync(`${stage.directory}/vmhostd.db`).includes(content))
  writeBackup(stage.directory, file, about)
  assert.deepEqual(readBackup(file).files, [])
})

test('the copies of a restore are for root alone', (t) => {
  const stage = new StoreStage(t)
  const { directory } = stage
  const file = `${directory}/b.vmhostd`
  writeBackup(directory, file, about)
  const modeOf = (name: string): string => (statSync(`${directory}/${name}`).mode & 0o777).toString(8)
  const modes: string[] = []
  stage.reopen(() => {
    mkdirSync(`${directory}/copies`, { mode: 0o755 })
    const restoring = restoringOf(stage, file)
    modes.push(modeOf('restore.new'))
    restoring.putBack([], NOW)
    modes.push(modeOf('copies'))
  })
  assert.deepEqual(modes, ['700', '700'])
})

test('a restore that cannot begin leaves the state directory to the daemon', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/damaged.db`
  writeFileSync(file, 'not a database'.repeat(999))
  stage.reopen(() => assert.throws(() => restoringOf(stage, file, true), /damaged\.db is damaged/))
})

test('records that the state directory has no room for are named, with the directory', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, about)
  t.mock.method(fs, 'renameSync', () => {
    throw Object.assign(new Error('ENOSPC: no space left on device, rename'), { code: 'ENOSPC' })
  })
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
  assert.throws(
    () => restoringOf(stage, file),
    /b\.vmhostd cannot be copied to .*restore\.new: make room there$/,
  )
})

test('records that are put back and not flushed are not called the former ones', (t) => {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, about)
  const fail = (path: string): void => {
    if (path === stage.directory) throw new Error('the disk failed')
  }
  stage.reopen(() =>
    assert.throws(() => restoringOf(stage, file).putBack([], NOW, { flush: fail }), UnflushedRecords),
  )
})
