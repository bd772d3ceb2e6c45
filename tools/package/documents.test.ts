import assert from 'node:assert/strict'
import { test } from 'node:test'
import { operatorsDocuments } from './documents.ts'

test('documents of the package link to documents alone, which the package then has too', () => {
  const documents = operatorsDocuments()
  assert.ok(documents.includes('operating.md'))
  assert.ok(documents.includes('releasing.md'))
})
