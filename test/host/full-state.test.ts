/**
 * The installed daemon while its records cannot be written: a full disk, or a database that another process has locked.
 */
import assert from 'node:assert/strict'
import { mkdirSync, rmSync } from 'node:fs'
import { test } from 'node:test'
import { DatabaseSync } from 'node:sqlite'
import { call, getVm, mutate, remove, settled } from '../../lab/inside/controller.ts'
import { exchange } from '../../lab/inside/first-packets.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { mainPid, ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { asleep, makeSleeper, sleeper } from '../../lab/inside/sleepers.ts'
import { until } from '../../lab/inside/until.ts'
import { atEnd } from '../contract/at-end.ts'
import { sharedHost } from './shared-host.ts'

const STATE = '/var/lib/vmhostd'
const POOL = `${STATE}/pool`
const KEPT = '/run/pool-kept'
const DISK = '/var/lib/lab/small-state.ext4'
const CODE = 'state_unwritable'

sharedHost()

/**
 * Gives the state directory a small file system of its own; the pool stays in its place. Returns a function that undoes
 * this.
 */
async function smallState(): Promise<() => Promise<void>> {
  await sh('systemctl', 'stop', 'vmhostd')
  mkdirSync(KEPT, { recursive: true })
  await sh('mount', '--bind', POOL, KEPT)
  await sh('mount', '--make-private', KEPT)
  await sh('umount', '--lazy', POOL)
  await sh('truncate', '-s', '16M', DISK)
  await sh('mkfs.ext4', '-q', '-F', DISK)
  const before = '/run/state-before'
  mkdirSync(before, { recursive: true })
  await sh('cp', '-a', `${STATE}/.`, before)
  await sh('mount', '-o', 'loop', DISK, STATE)
  await sh('cp', '-a', `${before}/.`, STATE)
  await sh('mount', '--bind', KEPT, POOL)
  await sh('systemctl', 'start', 'vmhostd')
  await ready()
  return async () => {
    await sh('systemctl', 'stop', 'vmhostd')
    await sh('umount', '--lazy', POOL)
    await sh('umount', '--lazy', STATE)
    await sh('mount', '--bind', KEPT, POOL)
    await sh('umount', '--lazy', KEPT)
    for (const path of [DISK, before]) rmSync(path, { recursive: true })
    await sh('systemctl', 'start', 'vmhostd')
    await ready()
  }
}

type Obstacle = {
  /** Applies the obstacle again after the end of a daemon freed some room. */
  readonly again: () => Promise<void>
  readonly clear: () => Promise<void>
}

async function fullState(): Promise<Obstacle> {
  const files: string[] = []
  // The largest pieces first: the remaining room is less than SQLite needs for a page.
  const again = async (): Promise<void> => {
    for (const size of ['1M', '4k', '512']) {
      const file = `${STATE}/fill-${files.length}`
      files.push(file)
      await sh('sh', '-c', `dd if=/dev/zero of=${file} bs=${size} 2>/dev/null || true`)
    }
  }
  await again()
  return { again, clear: async () => files.forEach((file) => rmSync(file)) }
}

async function lockedDatabase(): Promise<Obstacle> {
  const other = new DatabaseSync(`${STATE}/vmhostd.db`, { timeout: 5000 })
  other.exec('BEGIN IMMEDIATE')
  return {
    again: async () => {},
    clear: async () => {
      other.exec('ROLLBACK')
      other.close()
    },
  }
}

/** Obstacles that keep the records from being written. */
const OBSTACLES = {
  'a full state directory': fullState,
  'a database that another process has locked': lockedDatabase,
} satisfies Record<string, () => Promise<Obstacle>>

async function refusesChanges(): Promise<void> {
  const { status, body } = await call('PUT', '/v1/vms/stops/power', { state: 'stopped' })
  const { code, retryable } = body as unknown as { code: string; retryable: boolean }
  assert.deepEqual([status, code, retryable], [503, CODE, true])
  const vm = await getVm('stops')
  assert.deepEqual([vm.desired.power, vm.generations.desired, vm.observed.state], ['running', 1, 'running'])
}

/** Kills the monitor of a VM; the daemon starts it again. */
async function startsAgain(id: string): Promise<void> {
  const pid = await mainPid(`vmhost-${id}`)
  await sh('kill', '-9', pid)
  await until(`${id} runs again`, async () =>
    ['0', pid].includes(await mainPid(`vmhost-${id}`)) ? undefined : true,
  )
}

for (const [what, obstruct] of Object.entries(OBSTACLES)) {
  test(`${what} ends nothing: reads, stops and wakes work, even after a restart of the daemon`, async (t) => {
    const one = sleeper('sleeps', 91)
    const back = await smallState()
    atEnd(t, back)
    await makeSleeper(one, { sleepAfterIdleSeconds: 2 })
    for (const id of ['dies', 'stops']) await mutate('PUT', `/v1/vms/${id}`, guestRequest())
    for (const id of ['dies', 'stops']) await settled(id, 'running')
    const { bootId } = await servedPage(one.ipv4)
    await asleep(one.id)
    const daemon = await mainPid('vmhostd')
    const kept = await mainPid('vmhost-stops')

    const { again, clear } = await obstruct()
    try {
      await refusesChanges()
      await startsAgain('dies')
      await exchange(one.ipv4)
      assert.equal((await servedPage(one.ipv4)).bootId, bootId, 'the guest was booted again')
      assert.equal((await call('GET', '/v1/vms')).status, 200)
      assert.equal(await mainPid('vmhostd'), daemon, 'the daemon ended')

      await sh('systemctl', 'stop', 'vmhostd')
      assert.equal(await unitProperty('vmhostd', 'Result'), 'success')
      await again()
      await sh('systemctl', 'start', 'vmhostd')
      await ready()
      await refusesChanges()
      await startsAgain('dies')
      assert.equal((await servedPage(one.ipv4)).bootId, bootId, 'the guest was booted again')
      assert.equal(await mainPid('vmhost-stops'), kept, 'the guest was restarted')
      assert.equal(await unitProperty('vmhostd', 'NRestarts'), '0')
    } finally {
      await clear()
    }
    await until('the records are written again', async () =>
      (await call('PUT', '/v1/vms/stops/power', { state: 'stopped' })).status === 202 ? true : undefined,
    )
    await settled('stops', 'stopped')
    await settled('dies', 'running')
    await asleep(one.id)
    for (const id of ['dies', 'stops', one.id]) await remove(id)
  })
}
