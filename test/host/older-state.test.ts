/**
 * The installed daemon on a state directory that was restored from a backup, and on disks that somebody put into the
 * pool.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { call, getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { leaveHost } from '../../lab/inside/leave-host.ts'
import { installDaemon, mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'

const STATE = '/var/lib/vmhostd'
const DISKS = '/var/lib/vmhostd/pool/disks'
/** Created after the copy of the state was made. */
const YOUNGER = 'younger'
const OLDER = 'older'

const copy = mkdtempSync(join(tmpdir(), 'vmh-state-'))
const databaseFiles = (directory: string): string[] =>
  readdirSync(directory).filter((name) => name.startsWith('vmhostd.db'))

const create = (id: string): Promise<unknown> => mutate('PUT', `/v1/vms/${id}`, guestRequest({}))

async function faulted(id: string, code: string): Promise<void> {
  await until(`${id} shows ${code}`, async () =>
    (await getVm(id)).observed.fault?.code === code ? true : undefined,
  )
}

async function putStateBack(): Promise<void> {
  await sh('systemctl', 'stop', 'vmhostd')
  for (const name of databaseFiles(STATE)) rmSync(join(STATE, name))
  for (const name of databaseFiles(copy)) cpSync(join(copy, name), join(STATE, name))
  await sh('systemctl', 'start', 'vmhostd')
  await ready()
}

before(async () => {
  await installDaemon()
  await create(OLDER)
  await settled(OLDER, 'running')
  await sh('systemctl', 'stop', 'vmhostd')
  for (const name of databaseFiles(STATE)) cpSync(join(STATE, name), join(copy, name))
  await sh('systemctl', 'start', 'vmhostd')
  await ready()
})

after(async () => {
  await leaveHost()
  rmSync(copy, { recursive: true })
})

test('an older state directory ends no VM that was created since, and the log names it', async () => {
  await create(YOUNGER)
  await settled(YOUNGER, 'running')
  const pid = await mainPid(`vmhost-${YOUNGER}`)
  await putStateBack()
  assert.equal((await call('GET', `/v1/vms/${YOUNGER}`)).status, 404)
  for (const how of ['the first start', 'a restart']) {
    await until(`the log after ${how} names it`, async () => {
      const log = await sh('journalctl', `_PID=${await mainPid('vmhostd')}`, '--output=cat')
      return log
        .split('\n')
        .some((line) => line.includes(YOUNGER) && line.includes('a VM runs that is not on record'))
    })
    assert.equal(await mainPid(`vmhost-${YOUNGER}`), pid, `${how} ended the guest`)
    await sh('systemctl', 'restart', 'vmhostd')
    await ready()
  }
  await settled(OLDER, 'running')
})

test('a new VM with that id takes neither the unit nor the disk, and says so', async () => {
  const pid = await mainPid(`vmhost-${YOUNGER}`)
  await create(YOUNGER)
  await faulted(YOUNGER, 'unit_foreign')
  await setPower(YOUNGER, 'stopped')
  await faulted(YOUNGER, 'unit_foreign')
  assert.equal(await mainPid(`vmhost-${YOUNGER}`), pid)
  await setPower(YOUNGER, 'running')
  await sh('systemctl', 'stop', `vmhost-${YOUNGER}`)
  await faulted(YOUNGER, 'disk_foreign')
  renameSync(join(DISKS, YOUNGER), join(DISKS, '..', 'taken-out'))
  await settled(YOUNGER, 'running')
  await remove(YOUNGER)
  rmSync(join(DISKS, '..', 'taken-out'), { recursive: true })
})

test('a disk that was restored from a backup gets its owner and its mode again', async () => {
  const disk = join(DISKS, OLDER, 'disk.raw')
  const owner = await sh('stat', '--format=%u:%g %a', disk)
  await setPower(OLDER, 'stopped')
  await settled(OLDER, 'stopped')
  const backup = join(DISKS, '..', 'backup')
  renameSync(join(DISKS, OLDER), backup)
  await sh('cp', '--recursive', '--sparse=always', backup, join(DISKS, OLDER))
  await sh('chmod', '-R', 'go=', join(DISKS, OLDER))
  await setPower(OLDER, 'running')
  await settled(OLDER, 'running')
  assert.equal(await sh('stat', '--format=%u:%g %a', disk), owner)
  rmSync(backup, { recursive: true })
})
