import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { StoreStage } from '../../../test/store-stage.ts'
import { USES } from '../images/image-table.ts'
import { RECORDED_SUMS } from './recorded-sums.ts'

const SUMS = { 'promises to VMs': RECORDED_SUMS, 'uses of images': USES }

for (const [name, sql] of Object.entries(SUMS)) {
  test(`a sum over all VMs (${name}) goes through an index, and not through the records`, (t) => {
    const stage = new StoreStage(t)
    const db = new DatabaseSync(`${stage.directory}/vmhostd.db`, { readOnly: true })
    t.after(() => db.close())
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
    assert.equal(plan.length, 1)
    assert.match(String(plan[0]?.['detail']), /^SCAN vms USING (COVERING )?INDEX vms_by_(promise|images)$/)
  })
}
