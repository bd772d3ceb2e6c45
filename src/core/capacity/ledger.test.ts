import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { limits } from '../../config/limits.ts'
import { commitmentOf, ledgerOf } from './ledger.ts'

const MEMORY_MIB = 512
const DISK_MIB = 64
const SAVED_MIB = MEMORY_MIB + limits.savedDevicesMib

for (const [monitor, states] of [
  ['qemu', 1],
  ['firecracker', 2],
] as const) {
  test(`a guest of ${monitor} that may sleep is promised the room of saved states: ${states}`, () => {
    const { desired } = recordOf()
    const compute = { cpuMillicores: 1000, memoryMib: MEMORY_MIB, sleepAfterIdleSeconds: 60 }
    const network = { macAddress: '52:54:00:12:34:56' as never }
    const record = { monitor, desired: { ...desired, compute, network, disk: { sizeMib: DISK_MIB } } }
    const { diskMib } = commitmentOf(record, () => 0)
    assert.equal(diskMib, DISK_MIB + states * SAVED_MIB)
    const classes = [{ monitor, memoryMib: MEMORY_MIB, vms: 3, sleepers: 2 }]
    const recorded = { cpuMillicores: 0, disksMib: 0, consolePlaces: 0, classes }
    const { savedMib } = ledgerOf(recorded, { imagesMib: 0, stagingMib: 0 }, () => 0)
    assert.equal(savedMib, 2 * states * SAVED_MIB)
  })
}
