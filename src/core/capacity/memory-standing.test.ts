import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeMemory } from './memory-standing.ts'

const HOST_MIB = 1000
const judge = (vm: { readonly needMib: number; readonly heldMib?: number; readonly ahead?: number }) =>
  judgeMemory({ heldMib: 0, ahead: 0, allocatable: { known: true, value: HOST_MIB }, ...vm })

test('a VM that needs all memory of the host has it back once no other has any', () => {
  assert.deepEqual(judge({ needMib: HOST_MIB }), { kind: 'free' })
  assert.deepEqual(judge({ needMib: HOST_MIB, heldMib: 1 }), { kind: 'short', place: 1, missingMib: 1 })
})

test('a VM that needs more than all memory of the host does not wait', () => {
  const standing = judge({ needMib: HOST_MIB + 1 })
  assert.equal(standing.kind === 'blocked' && standing.because.code, 'memory_exceeds_host')
})

test('a VM waits behind those that came before it, although there is memory for it', () => {
  assert.deepEqual(judge({ needMib: 1, ahead: 2 }), { kind: 'short', place: 3, missingMib: 0 })
})

test('a host that promised more than it has lacks that memory too', () => {
  const standing = judge({ needMib: 100, heldMib: HOST_MIB + 50 })
  assert.deepEqual(standing, { kind: 'short', place: 1, missingMib: 150 })
})
