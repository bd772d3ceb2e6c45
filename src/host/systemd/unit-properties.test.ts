import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unitSpecOf } from '../../../test/fakes/unit-spec.ts'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'
import type { VmId } from '../../core/ids.ts'
import { InvariantError } from '../../lib/assert.ts'
import { markIn, unitProperties } from './unit-properties.ts'

const web = 'web-1' as VmId

const root = { directory: '/run/root', mounted: ['/usr', '/etc/ld.so.cache'] }

const propertiesOf = (changes: Partial<UnitSpec>): Map<string, unknown> =>
  new Map(unitProperties(web, unitSpecOf(web, changes), root).map(([name, , value]) => [name, value]))

const pathsIn = (binds: unknown): string[] => (binds as readonly (readonly [string])[]).map(([path]) => path)

test('a share of a CPU is the time that a unit gets of each second', () => {
  for (const [cpuQuotaPercent, microseconds] of [
    [10, 100_000n],
    [150, 1_500_000n],
    [0.1 + 0.2, 3000n],
    [3200, 32_000_000n],
  ] as const) {
    assert.equal(propertiesOf({ cpuQuotaPercent }).get('CPUQuotaPerSecUSec'), microseconds)
  }
})

test('the store that a unit belongs to is read back from its environment', () => {
  const mark = { storeId: 'a=b', createdAtMs: 1_750_000_000_000 }
  assert.deepEqual(markIn(propertiesOf({ mark }).get('Environment') as string[]), mark)
  const none = { storeId: undefined, createdAtMs: undefined }
  assert.deepEqual(markIn(['PATH=/usr/bin', 'VMHOSTD_STORE_OTHER=x', 'VMHOSTD_CREATED_AT_MS=soon']), none)
  assert.deepEqual(markIn(['VMHOSTD_STORE=a']), { ...none, storeId: 'a' })
})

test('a device is mounted, and allowed with the requested access', () => {
  const properties = propertiesOf({ devices: ['/dev/kvm rw', '/dev/vfio/7'] })
  assert.deepEqual(properties.get('DeviceAllow'), [
    ['/dev/kvm', 'rw'],
    ['/dev/vfio/7', 'rw'],
  ])
  assert.deepEqual(pathsIn(properties.get('BindPaths')), [
    '/dev/null',
    '/dev/urandom',
    '/dev/kvm',
    '/dev/vfio/7',
  ])
})

test('files of the VM are mounted at their own paths, and must exist', () => {
  const properties = propertiesOf({ readOnlyPaths: ['/pool/kernel'], readWritePaths: ['/pool/disk'] })
  const readOnly = properties.get('BindReadOnlyPaths') as unknown[]
  const readWrite = properties.get('BindPaths') as unknown[]
  assert.deepEqual(readOnly.at(-1), ['/pool/kernel', '/pool/kernel', false, 16_384n])
  assert.deepEqual(readWrite.at(-1), ['/pool/disk', '/pool/disk', false, 16_384n])
  assert.deepEqual(properties.get('RequiresMountsFor'), ['/pool/kernel', '/pool/disk'])
})

test('a program outside the host paths is mounted by itself', () => {
  const programs = (program: string): string[] =>
    pathsIn(propertiesOf({ command: [program] }).get('BindReadOnlyPaths'))
  assert.deepEqual(programs('/usr/bin/qemu'), root.mounted)
  assert.deepEqual(programs('/opt/bin/firecracker'), [...root.mounted, '/opt/bin/firecracker'])
  assert.deepEqual(programs('/usrlocal/qemu'), [...root.mounted, '/usrlocal/qemu'])
})

test('a program without an absolute path is a bug in the caller', () => {
  assert.throws(() => propertiesOf({ command: ['qemu'] }), InvariantError)
})
