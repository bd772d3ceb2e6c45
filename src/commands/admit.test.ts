import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage } from '../../test/command-stage.ts'
import { limits } from '../config/limits.ts'
import { setCompute } from './reshape.ts'
import { setPower } from './set-power.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { CommandResult } from './context.ts'

const compute = { cpuMillicores: 1000, memoryMib: 512, sleepAfterIdleSeconds: 0 }
/** More than any host has console places. */
const VMS = limits.consolePlacesMax + 50
const sleeps = { ...compute, sleepAfterIdleSeconds: 60 }

const codeOf = (result: CommandResult): string =>
  result.ok ? 'taken' : 'code' in result.error ? result.error.code : ''

test('VMs that never sleep hold console places, and one more is refused', (t) => {
  const { context, capacity, create } = commandStage(t)
  capacity.total.consolePlaces = 1
  assert.equal(codeOf(create({ compute, power: 'running' })), 'taken')
  assert.equal(
    codeOf(create({ compute, power: 'running', network: {} }, 'web-2')),
    'console_places_exhausted',
  )
  assert.equal(codeOf(create({ compute: sleeps, power: 'running', network: {} }, 'web-2')), 'taken')
  assert.equal(codeOf(setPower(context, 'web-2' as VmId, 'paused')), 'console_places_exhausted')
  assert.equal(codeOf(setCompute(context, 'web-2' as VmId, compute)), 'console_places_exhausted')
  assert.equal(codeOf(setPower(context, 'web-1' as VmId, 'stopped')), 'taken')
  assert.equal(codeOf(setPower(context, 'web-2' as VmId, 'paused')), 'taken')
})

test('more VMs than there are console places may sleep', (t) => {
  const { capacity, create, store } = commandStage(t, VMS)
  capacity.total.consolePlaces = 0
  for (let vm = 0; vm < VMS; vm += 1)
    assert.equal(codeOf(create({ compute: sleeps, power: 'running', network: {} }, `vm-${vm}`)), 'taken')
  assert.equal(store.vms.recorded().consolePlaces, 0)
})

test('a timeout above 0 needs room for the saved memory, monitors need memory, images and staging need room', (t) => {
  const { context, id, capacity, create } = commandStage(t)
  capacity.monitor = 128
  capacity.total.memoryMib = 639
  assert.equal(
    codeOf(create({ compute, power: 'stopped', network: {}, disk: { sizeMib: 100 } })),
    'insufficient_capacity',
  )
  capacity.total.memoryMib = 640
  capacity.shares = { imagesMib: 30, stagingMib: 70 }
  capacity.total.diskMib = 200
  assert.equal(
    codeOf(create({ compute, power: 'stopped', network: {}, disk: { sizeMib: 101 } })),
    'insufficient_capacity',
  )
  assert.equal(codeOf(create({ compute, power: 'stopped', network: {}, disk: { sizeMib: 100 } })), 'taken')
  assert.equal(codeOf(setCompute(context, id, sleeps)), 'insufficient_capacity')
  capacity.total.diskMib = 200 + 512 + 8
  assert.equal(codeOf(setCompute(context, id, sleeps)), 'taken')
  // A host that has promised too much still takes what is no increase.
  Object.assign(capacity.total, { memoryMib: 0, diskMib: 0, consolePlaces: 0 })
  assert.equal(codeOf(setPower(context, id, 'running')), 'taken')
  assert.equal(codeOf(setPower(context, id, 'stopped')), 'taken')
  assert.equal(codeOf(setCompute(context, id, compute)), 'taken')
})
