import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage } from '../../../test/command-stage.ts'
import { recordOf } from '../../../test/record.ts'
import { limits } from '../../config/limits.ts'
import { ledgerOf, totalsOf } from '../../core/capacity/ledger.ts'
import { manifestOf } from '../../core/vm/manifest.ts'
import { takeVm } from './take-vm.ts'
import type { ArrivalId, Departure } from '../../core/migration/departure.ts'
import type { MigrationId, NodeName } from '../../core/migration/offer.ts'

const departure: Departure = {
  id: 'move-7' as MigrationId,
  node: 'node-2' as NodeName,
  mode: 'cold',
  stage: 'offered',
  sinceMs: 1,
}
const needs = {
  monitor: { program: 'qemu-system-x86_64', version: '10.0.2', accelerator: 'tcg', form: 'mapped' },
  processor: { vendor: 'emulated', features: [] },
  inputs: { request: '{}', sshAuthorizedKeys: [], sources: new Map() },
  daemonSshKey: 'ssh-ed25519 AAAA vmhostd@host-1',
} as const

test('a VM that was rebuilt at its source needs the room of one disk here', (t) => {
  const { context, id, store, capacity, accepted, refusal } = commandStage(t)
  const before = recordOf()
  const { image, disk } = before.desired
  const record = recordOf({ desired: { ...before.desired, image: { ...image, rebuild: 2 } } })
  const request = {
    migrationId: departure.id,
    source: 'https://host-1.example:9001',
    manifest: { ...manifestOf(record, departure, needs), vmId: id },
    arrivalId: 'a' as ArrivalId,
  }
  capacity.total.diskMib = disk.sizeMib - 1
  assert.equal(refusal(takeVm(context, id, request)).code, 'insufficient_capacity')
  capacity.total.diskMib = disk.sizeMib
  accepted(takeVm(context, id, request))
  assert.equal(store.vms.recorded().disksMib, disk.sizeMib)
})

test('a VM that brings its memory needs room for that here, although it never sleeps', (t) => {
  const { context, id, store, capacity, accepted, refusal } = commandStage(t)
  const { desired, ...before } = recordOf()
  const compute = { ...desired.compute, sleepAfterIdleSeconds: 0 }
  const record = { ...before, desired: { ...desired, compute } }
  const request = {
    migrationId: departure.id,
    source: 'https://host-1.example:9001',
    manifest: { ...manifestOf(record, { ...departure, mode: 'live' }, needs), vmId: id },
    arrivalId: 'a' as ArrivalId,
  }
  const neededMib = desired.disk.sizeMib + compute.memoryMib + limits.savedDevicesMib
  capacity.total.diskMib = neededMib - 1
  assert.equal(refusal(takeVm(context, id, request)).code, 'insufficient_capacity')
  capacity.total.diskMib = neededMib
  accepted(takeVm(context, id, request))
  assert.equal(totalsOf(ledgerOf(store.vms.recorded(), NO_SHARES, capacity.memoryTerms())).diskMib, neededMib)
})

const NO_SHARES = { imagesMib: 0, stagingMib: 0 }
