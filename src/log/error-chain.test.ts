import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { errorChain, hindranceOf, unknownBy } from './error-chain.ts'

test('causes follow what they caused, in one line', () => {
  const cause = new Error('it said:\n  no such file', { cause: 'ENOENT' })
  const fault = new HostFault('storage_failed', 'making a disk', { cause })
  assert.equal(errorChain(fault), 'making a disk: it said: no such file: ENOENT')
})

test('the items of a list stay apart', () => {
  const error = new Error('the file cannot be used:\n  one must be a number\n  two is not known')
  assert.equal(errorChain(error), 'the file cannot be used: one must be a number; two is not known')
})

test('foreign text in a message does not make it longer than its bound', () => {
  const long = 'a-'.repeat(limits.faultCharactersMax)
  const fault = new HostFault('image_unavailable', `asking ${long}`, { cause: new Error(long) })
  assert.equal(fault.message.length, limits.faultCharactersMax)
  assert.match(errorChain(fault), /^asking a-[a-]*…: a-[a-]*…$/)
  assert.ok(errorChain(fault).length <= 2 * limits.faultCharactersMax + 2)
})

test('a chain of causes without an end is cut', () => {
  const error = new Error('again')
  error.cause = error
  assert.equal(errorChain(error), Array.from({ length: 8 }, () => 'again').join(': '))
})

test('a fault is caught as its code, its retry class and its whole chain', () => {
  const fault = new HostFault('storage_failed', 'making a disk', { cause: 'ENOENT', retry: 'on-change' })
  const hindrance = { code: 'storage_failed', retry: 'on-change', message: 'making a disk: ENOENT' } as const
  assert.deepEqual(hindranceOf(fault), hindrance)
  assert.deepEqual(unknownBy(fault), { known: false, ...hindrance })
})
