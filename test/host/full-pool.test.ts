/**
 * The installed daemon and a guest that writes while its pool is full: reported, never ended, and running again by
 * itself.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { mainPid, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { atEnd } from '../contract/at-end.ts'
import { fillPool } from './fill-pool.ts'
import { sharedHost } from './shared-host.ts'
import type { TestContext } from 'node:test'
import type { Vm } from '../../lab/inside/controller.ts'

const POOL = '/var/lib/vmhostd/pool'
const ID = 'writer'
const ADDRESS = '192.0.2.60'

sharedHost()

/** Waits until the VM is reported as paused for its disk, for the `attempt`th time. */
const stalled = (attempt: number): Promise<Vm> =>
  until(`attempt ${attempt} to go on`, async () => {
    const vm = await getVm(ID)
    const { code, attempt: made = 0 } = vm.observed.fault ?? {}
    return code === 'disk_io_error' && made >= attempt ? vm : undefined
  })

/**
 * Creates a guest that has not run yet, and fills the pool. The guest boots when it is set to run, and then mounts its
 * disk.
 */
async function unbootedOnFullPool(t: TestContext): Promise<() => Promise<void>> {
  const request = guestRequest({ power: 'paused', network: { ipv4_address: ADDRESS } })
  atEnd(t, () => remove(ID))
  await mutate('PUT', `/v1/vms/${ID}`, request)
  await settled(ID, 'paused')
  const makeRoom = await fillPool(POOL)
  atEnd(t, makeRoom)
  return makeRoom
}

test('a guest on a full pool pauses, is reported so, is not ended, and continues when there is room', async (t) => {
  const makeRoom = await unbootedOnFullPool(t)
  const pid = await mainPid(`vmhost-${ID}`)
  await setPower(ID, 'running')
  const { observed } = await stalled(1)
  assert.equal(observed.state, 'failed')
  assert.match(observed.error ?? '', /the pool has no room for its writes/)
  assert.match(observed.error ?? '', /it continues when there is room again/)
  const because = 'the monitor paused the guest: its disk failed (io-error)'
  assert.ok((await sh('vmhostd', 'plan', ID)).includes(`monitor.ensure-running because ${because}`))
  await stalled(3)
  assert.equal(await mainPid(`vmhost-${ID}`), pid, 'the guest was ended')
  await makeRoom()
  await settled(ID, 'running')
  await until<true>('the guest answers', async () => {
    await sh('ping', '-c', '1', '-W', '1', ADDRESS)
    return true
  })
  assert.equal(await mainPid(`vmhost-${ID}`), pid, 'the guest was restarted')
  assert.equal((await getVm(ID)).observed.error, undefined)
})

test('a guest that paused on a full pool is paused, stopped and deleted like any other', async (t) => {
  await unbootedOnFullPool(t)
  await setPower(ID, 'running')
  await stalled(1)
  await setPower(ID, 'paused')
  const { observed, generations } = await until('it counts as paused', async () => {
    const vm = await getVm(ID)
    return vm.observed.state === 'paused' ? vm : undefined
  })
  assert.equal(generations.observed, generations.desired)
  assert.match(observed.error ?? '', /^monitor\.inspect: the monitor paused the guest/)
  await setPower(ID, 'stopped')
  await settled(ID, 'stopped')
  assert.equal(await mainPid(`vmhost-${ID}`), '0')
  await remove(ID)
})
