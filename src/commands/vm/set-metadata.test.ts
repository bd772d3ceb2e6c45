import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage } from '../../../test/command-stage.ts'
import { deleteVm } from './delete-vm.ts'
import { setMetadata } from './set-metadata.ts'

test('labels and protection raise the revision and no generation', (t) => {
  const { context, id, create, accepted, pokes } = commandStage(t)
  const before = accepted(create()).record
  pokes.length = 0
  const metadata = { labels: { env: 'prod' }, protected: true }
  const { record, changed } = accepted(setMetadata(context, id, metadata))
  assert.deepEqual([record.metadata, changed], [metadata, true])
  assert.ok(record.revision > before.revision)
  assert.deepEqual(record.generations, before.generations)
  assert.equal(accepted(setMetadata(context, id, metadata)).changed, false)
  assert.deepEqual(pokes, [], 'the host has nothing to do')
})

test('protection that is lifted from a VM which is to be deleted makes its worker look, without a poke', (t) => {
  const { context, id, create, accepted, pokes, seenAs } = commandStage(t)
  const exit = { restartPolicy: 'always', deleteAfterSeconds: 60 } as const
  create({ power: 'stopped', exit, metadata: { labels: {}, protected: true } })
  seenAs('stopped')
  pokes.length = 0
  accepted(setMetadata(context, id, { labels: { env: 'prod' } }))
  assert.deepEqual(pokes, [])
  accepted(setMetadata(context, id, { protected: false }))
  assert.deepEqual(pokes, ['web-1 noticed: deletion possible'])
})

test('a protected VM is not deleted until the protection is lifted', (t) => {
  const { context, id, create, accepted, refusal } = commandStage(t)
  create({ metadata: { labels: {}, protected: true } })
  assert.equal(refusal(deleteVm(context, id)).code, 'vm_protected')
  accepted(setMetadata(context, id, { labels: {}, protected: false }))
  accepted(deleteVm(context, id))
})
