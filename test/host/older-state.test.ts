/**
 * The installed daemon on a state directory that was restored from a backup, on disks that somebody put into the pool,
 * and on a record that cannot be read.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { call, getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { breakRecord, mendRecord } from '../break-record.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'
import type { VmId } from '../../src/core/ids.ts'

const STATE = '/var/lib/vmhostd'
const DISKS = '/var/lib/vmhostd/pool/disks'
/** Places for disks that the tests take out. */
const TAKEN_OUT = join(DISKS, '..', 'taken-out')
const BACKUP = join(DISKS, '..', 'backup')
/** Created after the copy of the state was made. */
const YOUNGER = 'younger'
const OLDER = 'older' as VmId

let copy: string
const databaseFiles = (directory: string): string[] =>
  readdirSync(directory).filter((name) => name.startsWith('vmhostd.db'))

const create = (id: string): Promise<unknown> => mutate('PUT', `/v1/vms/${id}`, guestRequest({}))

async function faulted(id: string, code: string): Promise<void> {
  await until(`${id} shows ${code}`, async () =>
    (await getVm(id)).observed.fault?.code === code ? true : undefined,
  )
}

/** Changes the state directory while no daemon runs, and starts the daemon again. */
async function whileStopped(change: () => void): Promise<void> {
  await sh('systemctl', 'stop', 'vmhostd')
  change()
  await sh('systemctl', 'start', 'vmhostd')
  await ready()
}

const copyDatabase = (from: string, to: string): void => {
  for (const name of databaseFiles(from)) cpSync(join(from, name), join(to, name))
}

const putStateBack = (): Promise<void> =>
  whileStopped(() => {
    for (const name of databaseFiles(STATE)) rmSync(join(STATE, name))
    copyDatabase(copy, STATE)
  })

sharedHost({
  make: async () => {
    copy = mkdtempSync(join(tmpdir(), 'vmh-state-'))
    await create(OLDER)
    await settled(OLDER, 'running')
    await whileStopped(() => copyDatabase(STATE, copy))
  },
  remove: async () => {
    rmSync(copy, { recursive: true })
    // A VM that is not on record would stay.
    await sh('systemctl', 'stop', `vmhost-${YOUNGER}`).catch(() => '')
    for (const path of [TAKEN_OUT, BACKUP]) rmSync(path, { recursive: true, force: true })
  },
})

story('a VM that is not on record is neither ended nor taken over', {
  'an older state directory ends no VM that was created since, and the log names it': async () => {
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
          .find((line) => line.includes(YOUNGER) && line.includes('a VM runs that is not on record'))
      })
      assert.equal(await mainPid(`vmhost-${YOUNGER}`), pid, `${how} ended the guest`)
      await sh('systemctl', 'restart', 'vmhostd')
      await ready()
    }
    await settled(OLDER, 'running')
  },
  'a new VM with that id takes neither the unit nor the disk, and says so': async () => {
    const pid = await mainPid(`vmhost-${YOUNGER}`)
    await create(YOUNGER)
    await faulted(YOUNGER, 'unit_foreign')
    await setPower(YOUNGER, 'stopped')
    await faulted(YOUNGER, 'unit_foreign')
    assert.equal(await mainPid(`vmhost-${YOUNGER}`), pid)
    await setPower(YOUNGER, 'running')
    await sh('systemctl', 'stop', `vmhost-${YOUNGER}`)
    await faulted(YOUNGER, 'disk_foreign')
    renameSync(join(DISKS, YOUNGER), TAKEN_OUT)
    await settled(YOUNGER, 'running')
    await remove(YOUNGER)
    rmSync(TAKEN_OUT, { recursive: true })
  },
})

test('a disk that was restored from a backup gets its owner and its mode again', async () => {
  const disk = join(DISKS, OLDER, 'disk.raw')
  const owner = await sh('stat', '--format=%u:%g %a', disk)
  await setPower(OLDER, 'stopped')
  await settled(OLDER, 'stopped')
  renameSync(join(DISKS, OLDER), BACKUP)
  await sh('cp', '--recursive', '--sparse=always', BACKUP, join(DISKS, OLDER))
  await sh('chmod', '-R', 'go=', join(DISKS, OLDER))
  await setPower(OLDER, 'running')
  await settled(OLDER, 'running')
  assert.equal(await sh('stat', '--format=%u:%g %a', disk), owner)
  rmSync(BACKUP, { recursive: true })
})

test('a record that cannot be read keeps its own VM alone from being served, and its guest runs on', async () => {
  const other = 'beside-it'
  await create(other)
  await settled(other, 'running')
  const pid = await mainPid(`vmhost-${OLDER}`)
  await whileStopped(() => breakRecord(STATE, OLDER))
  assert.equal((await call('GET', `/v1/vms/${OLDER}`)).status, 500)
  await setPower(other, 'stopped')
  await settled(other, 'stopped')
  assert.equal(await mainPid(`vmhost-${OLDER}`), pid)
  await whileStopped(() => mendRecord(STATE, OLDER))
  await settled(OLDER, 'running')
  assert.equal(await mainPid(`vmhost-${OLDER}`), pid)
})
