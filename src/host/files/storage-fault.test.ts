import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { test } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { ifThere, storageFault } from './storage-fault.ts'

const failure = (code: keyof typeof constants.errno): NodeJS.ErrnoException =>
  Object.assign(new Error(`${code}: it failed, open '/var/lib/secret-path'`), {
    code: code === 'EDQUOT' ? 'Unknown system error -122' : code,
    errno: -(constants.errno[code] ?? 0),
  })

for (const [errno, code] of [
  ['ENOSPC', 'storage_full'],
  ['EDQUOT', 'storage_full'],
  ['EROFS', 'storage_read_only'],
  ['EIO', 'storage_failed'],
  ['ENOENT', 'storage_failed'],
] as const) {
  test(`${errno} is ${code}, and the fault omits the path`, () => {
    const fault = storageFault(failure(errno), 'making the disk of VM web-1')
    assert.ok(fault instanceof HostFault)
    assert.equal(fault.code, code)
    assert.match(errorChain(fault), new RegExp(`^making the disk of VM web-1: ${errno}: [\\w -]+`))
    assert.doesNotMatch(errorChain(fault), /secret-path/)
  })
}

test('a system call of our own that failed becomes a fault like one of Node', () => {
  for (const [errno, code] of [
    ['ENOSPC', 'storage_full'],
    ['EIO', 'storage_failed'],
  ] as const) {
    const fault = storageFault(new ErrnoError('lseek SEEK_DATA', constants.errno[errno]), 'checking')
    assert.ok(fault instanceof HostFault)
    assert.equal(fault.code, code)
    assert.match(errorChain(fault), new RegExp(`^checking: ${errno}: \\w`))
  }
})

test('a fault, a bug and the reason of an abort are returned as they are', () => {
  for (const error of [new HostFault('image_unavailable', 'x'), new TypeError('x'), 'reason', undefined]) {
    assert.equal(storageFault(error, 'y'), error)
  }
})

test('only ENOENT means that something does not exist', async () => {
  assert.equal(await ifThere(Promise.resolve(1)), 1)
  assert.equal(await ifThere(Promise.reject(failure('ENOENT'))), undefined)
  for (const errno of ['EIO', 'ENOTDIR', 'EACCES', 'ESTALE'] as const) {
    await assert.rejects(ifThere(Promise.reject(failure(errno))), { code: errno })
  }
})
