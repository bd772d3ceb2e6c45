import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { Restoring } from './restoring.ts'
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
    const at = { stateDirectory: directory, directory: `${directory}/restore.new` }
    new Restoring(file, at, { first: 600_000, count: 100 }).putBack([], Date.UTC(2027, 0, 15))
    left = readdirSync(copies)
  })
  assert.deepEqual(left, ['before-restore-20270115T000000Z.db'])
})

const about = { about: { madeAtMs: 1, version: '1.2.3', hostId: 'host-1' }, files: [] }
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
    const at = { stateDirectory: directory, directory: `${directory}/restore.new` }
    const restoring = new Restoring(file, at, { first: 600_000, count: 100 })
    restoring.putBack([out], 1_800_000_000_000, { userIdsOnHost: [600_000, 600_004] as UserId[] })
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
  stage.reopen(() => {
    const at = { stateDirectory: directory, directory: `${directory}/restore.new` }
    new Restoring(file, at, { first: 600_000, count: 100 }).putBack([], 1_800_000_000_000)
  })
  assert.deepEqual(stage.store.vms.get(launched)?.launch, { ...launch, endsQuietly: true })
  assert.equal(stage.store.vms.get(other)?.launch, undefined)
})
