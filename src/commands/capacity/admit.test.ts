import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage } from '../../../test/command-stage.ts'
import { limits } from '../../config/limits.ts'
import { deleteVm } from '../vm/delete-vm.ts'
import { setCompute } from '../vm/reshape.ts'
import { setPower } from '../vm/set-power.ts'
import type { Unknown } from '../../core/world/world.ts'
import type { VmId } from '../../core/ids.ts'
import type { CommandResult } from '../context.ts'

const compute = { cpuMillicores: 1000, memoryMib: 512, sleepAfterIdleSeconds: 0 }
/** More than any host has console places. */
const VMS = limits.consolePlacesMax + 50
const sleeps = { ...compute, sleepAfterIdleSeconds: 60 }
/** For a VM beside that with the address of each request. */
const another = { ipv4Address: '192.0.2.11' }

const codeOf = (result: CommandResult): string =>
  result.ok ? 'taken' : 'code' in result.error ? result.error.code : ''

const detailOf = (result: CommandResult): string | undefined =>
  !result.ok && 'detail' in result.error ? result.error.detail : undefined

test('VMs that never sleep hold console places, and one more is refused', (t) => {
  const { context, capacity, create } = commandStage(t)
  capacity.total.consolePlaces = 1
  assert.equal(codeOf(create({ compute, power: 'running' })), 'taken')
  assert.equal(
    codeOf(create({ compute, power: 'running', network: {} }, 'web-2')),
    'console_places_exhausted',
  )
  assert.equal(codeOf(create({ compute: sleeps, power: 'running', network: another }, 'web-2')), 'taken')
  assert.equal(codeOf(setPower(context, 'web-2' as VmId, 'paused')), 'console_places_exhausted')
  assert.equal(codeOf(setCompute(context, 'web-2' as VmId, compute)), 'console_places_exhausted')
  assert.equal(codeOf(setPower(context, 'web-1' as VmId, 'stopped')), 'taken')
  assert.equal(codeOf(setPower(context, 'web-2' as VmId, 'paused')), 'taken')
})

test('a refusal says if there is room when VMs under deletion are gone', (t) => {
  const { context, id, capacity, create } = commandStage(t)
  capacity.total.memoryMib = 1024
  create({ compute, power: 'running' })
  create({ compute, power: 'running', network: another }, 'web-2')
  const asked = { compute: { ...compute, memoryMib: 1024 }, power: 'running', network: {} } as const
  const short = 'the host is short of memory by 1024 MiB (1024 MiB more needed, 0 MiB free of 1024 MiB)'
  assert.equal(detailOf(create(asked, 'web-3')), short)
  deleteVm(context, id)
  assert.equal(detailOf(create(asked, 'web-3')), short)
  deleteVm(context, 'web-2' as VmId)
  assert.equal(
    detailOf(create(asked, 'web-3')),
    `${short}; it has room when the 2 VMs under deletion are gone`,
  )
})

test('a refusal of an idle timeout alone says that the disk is for the saved memory', (t) => {
  const { context, id, capacity, create } = commandStage(t)
  capacity.total.diskMib = 100
  create({ compute, power: 'stopped', disk: { sizeMib: 64 } })
  const needMib = compute.memoryMib + limits.savedDevicesMib
  const short = `the host is short of disk by ${needMib - 36} MiB`
  const why = `(${needMib} MiB more needed for its saved memory, 36 MiB free of 100 MiB)`
  assert.equal(detailOf(setCompute(context, id, sleeps)), `${short} ${why}`)
})

test('more VMs than there are console places may sleep', (t) => {
  const { capacity, create, store } = commandStage(t, VMS)
  capacity.total.consolePlaces = 0
  for (let vm = 0; vm < VMS; vm += 1) {
    const network = { ipv6Address: `2001:db8::${(vm + 1).toString(16)}` }
    assert.equal(codeOf(create({ compute: sleeps, power: 'running', network }, `vm-${vm}`)), 'taken')
  }
  assert.equal(store.vms.recorded().consolePlaces, 0)
})

test('a timeout above 0 needs room for the saved memory, monitors need memory, images and staging need room', (t) => {
  const { context, id, capacity, create } = commandStage(t)
  capacity.monitor = 128
  capacity.total.memoryMib = 639
  assert.equal(codeOf(create({ compute, power: 'stopped', disk: { sizeMib: 100 } })), 'insufficient_capacity')
  capacity.total.memoryMib = 640
  capacity.shares = { imagesMib: 30, stagingMib: 70 }
  capacity.total.diskMib = 200
  assert.equal(codeOf(create({ compute, power: 'stopped', disk: { sizeMib: 101 } })), 'insufficient_capacity')
  assert.equal(codeOf(create({ compute, power: 'stopped', disk: { sizeMib: 100 } })), 'taken')
  assert.equal(codeOf(setCompute(context, id, sleeps)), 'insufficient_capacity')
  const wholeMib = 200 + compute.memoryMib + limits.savedDevicesMib
  capacity.total.diskMib = wholeMib - 1
  assert.equal(codeOf(setCompute(context, id, sleeps)), 'insufficient_capacity')
  capacity.total.diskMib = wholeMib
  assert.equal(codeOf(setCompute(context, id, sleeps)), 'taken')
  // A host that has promised too much still accepts a change that needs nothing more.
  Object.assign(capacity.total, { memoryMib: 0, diskMib: 0, consolePlaces: 0 })
  assert.equal(codeOf(setPower(context, id, 'running')), 'taken')
  assert.equal(codeOf(setPower(context, id, 'stopped')), 'taken')
  assert.equal(codeOf(setCompute(context, id, compute)), 'taken')
})

test('a guest that may be saved keeps its room in the pool, although its timeout is 0 by now', (t) => {
  const { context, id, capacity, create, store } = commandStage(t)
  create({ compute: sleeps, power: 'running', disk: { sizeMib: 100 } })
  store.vms.recordProgress(id, { observed: { state: 'sleeping', sinceMs: 1 }, mayBeSaved: true, nowMs: 1 })
  assert.equal(codeOf(setCompute(context, id, compute)), 'taken')
  const savedMib = compute.memoryMib + limits.savedDevicesMib
  capacity.total.diskMib = 100 + savedMib + 99
  const small = { compute, power: 'running', network: {}, disk: { sizeMib: 100 } } as const
  assert.equal(codeOf(create(small, 'web-2')), 'insufficient_capacity')
  store.vms.recordProgress(id, { observed: { state: 'running', sinceMs: 2 }, mayBeSaved: false, nowMs: 2 })
  assert.equal(codeOf(create(small, 'web-2')), 'taken')
})

test('a guest that may be saved needs no room for its sleep a second time', (t) => {
  const { context, id, capacity, create, store } = commandStage(t)
  create({ compute: sleeps, power: 'running', disk: { sizeMib: 100 } })
  store.vms.recordProgress(id, { observed: { state: 'sleeping', sinceMs: 1 }, mayBeSaved: true, nowMs: 1 })
  assert.equal(codeOf(setCompute(context, id, compute)), 'taken')
  capacity.total.diskMib = 100 + compute.memoryMib + limits.savedDevicesMib
  assert.equal(codeOf(setCompute(context, id, sleeps)), 'taken')
})

const unknown = (message: string): Unknown => ({
  known: false,
  code: 'capacity_unknown',
  retry: 'backoff',
  message,
})

test('an unknown figure refuses what needs it, and nothing else', (t) => {
  const { capacity, create } = commandStage(t)
  capacity.placesFault = unknown('systemd does not answer')
  assert.equal(codeOf(create({ compute, power: 'running', network: {} })), 'capacity_unknown')
  assert.equal(codeOf(create({ compute: sleeps, power: 'running' })), 'taken')
  capacity.placesFault = undefined
  capacity.sharesFault = unknown('the images were not listed yet')
  assert.equal(codeOf(create({ compute, power: 'running', network: {} }, 'web-2')), 'capacity_unknown')
})
