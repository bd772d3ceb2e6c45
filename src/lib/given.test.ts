import assert from 'node:assert/strict'
import { test } from 'node:test'
import { given } from './given.ts'

test('members that are undefined are left out; all other values stay', () => {
  const none: { readonly a: string | undefined } = { a: undefined }
  assert.deepEqual(given({ ...none, b: null, c: 0, d: '', e: false }), { b: null, c: 0, d: '', e: false })
  assert.deepEqual(Object.keys(given({ a: undefined })), [])
})

test('the result fits a type with optional members', () => {
  const label = (text: string | undefined): { readonly text?: string; readonly id: number } => ({
    id: 1,
    ...given({ text }),
  })
  assert.deepEqual([label('x'), label(undefined)], [{ id: 1, text: 'x' }, { id: 1 }])
})
