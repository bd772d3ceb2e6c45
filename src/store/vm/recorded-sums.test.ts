import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { StoreStage } from '../../../test/store-stage.ts'
import { USES } from '../images/image-table.ts'
import { SUMS } from './recorded-sums.ts'

const STATEMENTS = {
  'promises to VMs': { sql: SUMS.all, index: /^SCAN vms USING COVERING INDEX vms_by_promise$/ },
  'promises to VMs under deletion': {
    sql: SUMS['under deletion'],
    index: /^SCAN vms USING INDEX vms_under_deletion$/,
  },
  'uses of images': { sql: USES, index: /^SCAN vms USING INDEX vms_by_images$/ },
}

for (const [name, { sql, index }] of Object.entries(STATEMENTS)) {
  test(`a sum over VMs (${name}) goes through an index`, (t) => {
    const stage = new StoreStage(t)
    const db = new DatabaseSync(`${stage.directory}/vmhostd.db`, { readOnly: true })
    t.after(() => db.close())
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
    assert.equal(plan.length, 1)
    assert.match(String(plan[0]?.['detail']), index)
  })
}
