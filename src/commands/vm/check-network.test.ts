import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { commandStage } from '../../../test/command-stage.ts'
import { databaseIn } from '../../store/database/open-database.ts'
import { deleteVm } from './delete-vm.ts'

test('an address of a VM that is being deleted becomes free, and the refusal says when', (t) => {
  const { context, id, create, refusal, accepted } = commandStage(t)
  const network = { ipv4Address: '192.0.2.10' }
  accepted(create({ network }))
  accepted(deleteVm(context, id))
  assert.equal(
    refusal(create({ network }, 'web-2')).text,
    '192.0.2.10 belongs to the VM web-1, which is being deleted: wait until it is gone, or choose another address',
  )
})

test('an address of a VM whose record cannot be read is in use', (t) => {
  const { create, refusal, accepted, directory } = commandStage(t)
  const network = { ipv4Address: '192.0.2.10' }
  accepted(create({ network }))
  const db = new DatabaseSync(databaseIn(directory))
  db.exec("UPDATE vms SET launch = '{'")
  db.close()
  assert.equal(refusal(create({ network }, 'web-2')).code, 'address_in_use')
})
