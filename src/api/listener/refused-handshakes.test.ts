import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog } from '../../log/logger.ts'
import { RefusedHandshakes } from './refused-handshakes.ts'

test('the first refusal of a reason is logged at once, and the rest in one line with their number', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const lines: { reason: string; count: number; peer: string }[] = []
  const log = createLog({ level: 'info', write: (line) => lines.push(JSON.parse(line)) })
  const refused = new RefusedHandshakes(log, 1000)
  const reported = () => lines.map(({ peer, reason, count }) => [peer, reason, count])
  for (let n = 0; n < 1000; n += 1) refused.note({ peer: `192.0.2.${n % 10}`, reason: 'CERT_HAS_EXPIRED' })
  refused.note({ peer: '192.0.2.20', reason: 'ECONNRESET' })
  assert.deepEqual(reported(), [
    ['192.0.2.0', 'CERT_HAS_EXPIRED', 1],
    ['192.0.2.20', 'ECONNRESET', 1],
  ])
  t.mock.timers.tick(1000)
  assert.deepEqual(reported().slice(2), [['192.0.2.9', 'CERT_HAS_EXPIRED', 999]])
  t.mock.timers.tick(1000)
  assert.equal(lines.length, 3)
  refused.note({ peer: '192.0.2.1', reason: 'CERT_HAS_EXPIRED' })
  assert.equal(lines.length, 4)
})

test('reasons that others choose do not make more lines than there are reasons at a time', () => {
  const lines: string[] = []
  const refused = new RefusedHandshakes(
    createLog({ level: 'info', write: (line) => lines.push(line) }),
    60_000,
  )
  for (let n = 0; n < 1000; n += 1) refused.note({ peer: undefined, reason: `reason ${n}` })
  assert.ok(lines.length <= 17, `${lines.length} lines`)
})
