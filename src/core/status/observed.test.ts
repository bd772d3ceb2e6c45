import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf, worldOf } from '../../../test/record.ts'
import { observedAfter } from './observed.ts'
import type { MonitorCapabilities } from '../monitor/machine-spec.ts'
import type { ImageRole } from '../desired.ts'
import type { StorageState, World } from '../world/world.ts'

const capabilities: MonitorCapabilities = {
  startPaused: true,
  save: true,
  kernelFormats: ['bzImage'],
}

/** Returns the change of kernel and initrd that is shown as done; change 1 was, and change 2 is desired. */
function bootRevision(storage: World['storage']): number | undefined {
  const { desired, observed } = recordOf()
  const record = recordOf({
    desired: { ...desired, power: 'stopped', image: { ...desired.image, bootRevision: 2 } },
    observed: { ...observed, state: 'stopped', bootRevision: 1 },
  })
  const seen = { record, world: worldOf({ storage }), found: [], capabilities, nowMs: 1 }
  return observedAfter(seen, 'stopped').bootRevision
}

const inPool = worldOf().storage.known ? worldOf().storage : assert.fail()
const lacking = (...missingImages: ImageRole[]): World['storage'] => ({
  known: true,
  value: { ...(inPool as { readonly value: StorageState }).value, missingImages },
})

test('another kernel is shown as taken once it is in the pool, whether the image of the disk is there or not', () => {
  assert.equal(bootRevision(lacking('kernel')), 1)
  assert.equal(bootRevision(lacking()), 2)
  assert.equal(bootRevision(lacking('rootfs')), 2)
})

test('while the pool is not seen, the last change of the kernel stays as it was', () => {
  const unknown = {
    known: false,
    code: 'storage_inspection_failed',
    retry: 'backoff',
    message: 'no',
  } as const
  assert.equal(bootRevision(unknown), 1)
})
