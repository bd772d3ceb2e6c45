import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { certificateEvents } from './certificate-events.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { CertificateSeen, ListSeen, TrustNoted } from './certificate-events.ts'

const NOW_MS = Date.UTC(2030, 0, 1)

/** Takes looks one after the other, and returns the events of each. */
function looks() {
  let noted: TrustNoted = {}
  const look = (
    nowMs: number,
    { certificates = [], lists }: { certificates?: CertificateSeen[]; lists?: ListSeen[] },
  ) => {
    const seen = { certificates, lists: new Map(lists && [['controller', lists]]) }
    const result = certificateEvents(noted, seen, nowMs)
    noted = JSON.parse(JSON.stringify(result.noted))
    return result.events
  }
  return { look, noted: () => noted }
}

const server = (notAfterMs: number): CertificateSeen => ({ certificate: 'server', notAfterMs })

test('a certificate is an event when 30 days are left, when it ends, and when another one takes its place', () => {
  const { look } = looks()
  const endMs = NOW_MS + 31 * DAY_MS
  const kinds = (nowMs: number, notAfterMs = endMs): readonly string[] =>
    look(nowMs, { certificates: [server(notAfterMs)] }).map(({ kind }) => kind)
  assert.deepEqual(kinds(NOW_MS), [])
  const soon = look(NOW_MS + DAY_MS, { certificates: [server(endMs)] })
  assert.deepEqual(soon, [{ kind: 'certificate_ends_soon', certificate: 'server', notAfterMs: endMs }])
  assert.deepEqual(kinds(NOW_MS + 2 * DAY_MS), [])
  assert.deepEqual(look(NOW_MS, {}), [], 'it is out of sight')
  assert.deepEqual(kinds(NOW_MS), [], 'the clock was put back')
  assert.deepEqual(kinds(NOW_MS + 2 * DAY_MS), [])
  assert.deepEqual(kinds(endMs), ['certificate_ended'])
  assert.deepEqual(kinds(endMs + DAY_MS), [])
  const next = endMs + 400 * DAY_MS
  assert.deepEqual(look(endMs, { certificates: [server(next)] }), [
    { kind: 'certificate_replaced', certificate: 'server', notAfterMs: next },
  ])
  assert.deepEqual(kinds(endMs, next), [])
  assert.deepEqual(kinds(endMs, endMs + DAY_MS), ['certificate_replaced', 'certificate_ends_soon'])
})

test('a clock that was far ahead hides no later event of a certificate or a list', () => {
  const { look } = looks()
  const endMs = NOW_MS + 300 * DAY_MS
  const dueMs = NOW_MS + 7 * DAY_MS
  const list = { issuer: 'CN=one', revoked: 0, thisUpdateMs: NOW_MS, nextUpdateMs: dueMs }
  const kinds = (nowMs: number): readonly string[] =>
    look(nowMs, { certificates: [server(endMs)], lists: [list] }).map(({ kind }) => kind)
  assert.deepEqual(kinds(NOW_MS + 365 * DAY_MS), ['certificate_ended', 'revocation_list_overdue'])
  assert.deepEqual(kinds(NOW_MS), [])
  assert.deepEqual(kinds(dueMs), ['revocation_list_overdue'])
  assert.deepEqual(kinds(dueMs + DAY_MS), [])
  assert.deepEqual(kinds(endMs - 30 * DAY_MS), ['certificate_ends_soon'])
  assert.deepEqual(kinds(endMs), ['certificate_ended'])
  assert.deepEqual(kinds(endMs + DAY_MS), [])
})

test('a clock that was far behind repeats no event', () => {
  const { look } = looks()
  const kinds = (nowMs: number): readonly string[] =>
    look(nowMs, { certificates: [server(NOW_MS + DAY_MS)] }).map(({ kind }) => kind)
  assert.deepEqual(kinds(NOW_MS), ['certificate_ends_soon'])
  assert.deepEqual(kinds(0), [])
  assert.deepEqual(kinds(NOW_MS), [])
})

test('a certificate of a client is an event once, also if it is seen now and then, and is forgotten after its end', () => {
  const { look, noted } = looks()
  const client = (serial: string, days: number): CertificateSeen => ({
    certificate: 'client',
    name: 'metrics',
    serial,
    notAfterMs: NOW_MS + days * DAY_MS,
  })
  assert.deepEqual(look(NOW_MS, { certificates: [client('a', 10), client('b', 400)] }), [
    { kind: 'certificate_ends_soon', ...client('a', 10) },
  ])
  assert.deepEqual(Object.keys(noted()), ['client a'])
  assert.deepEqual(look(NOW_MS, {}), [])
  assert.deepEqual(look(NOW_MS, { certificates: [client('a', 10)] }), [])
  assert.deepEqual(look(NOW_MS + 17 * DAY_MS, {}), [])
  assert.deepEqual(noted(), {})
  const many = Array.from({ length: 200 }, (_, index) => client(`c${index}`, 10))
  assert.equal(look(NOW_MS, { certificates: many }).length, 200)
  assert.equal(Object.keys(noted()).length, limits.clientCertificatesMax)
})

test('a revocation list is an event when another one is in use, and when it is overdue', () => {
  const { look, noted } = looks()
  const dueMs = NOW_MS + DAY_MS
  const list = (revoked: number, changes: Partial<ListSeen> = {}): ListSeen => ({
    ...{ issuer: 'CN=one', revoked, thisUpdateMs: NOW_MS, nextUpdateMs: dueMs },
    ...changes,
  })
  const of = { listener: 'controller', issuer: 'CN=one', nextUpdateMs: dueMs }
  // Two authorities may have one name.
  const twins = [list(0), list(7)]
  assert.deepEqual(look(NOW_MS, { lists: twins }), [])
  assert.deepEqual(look(NOW_MS, { lists: twins }), [])
  assert.deepEqual(look(NOW_MS, { lists: [list(1), list(7)] }), [
    { kind: 'revocation_list_replaced', ...of, revoked: 1 },
  ])
  assert.deepEqual(look(NOW_MS, {}), [], 'the listener is not open')
  assert.deepEqual(look(NOW_MS, { lists: [list(1)] }), [])
  assert.deepEqual(look(dueMs, { lists: [list(1)] }), [
    { kind: 'revocation_list_overdue', ...of, revoked: 1 },
  ])
  assert.deepEqual(look(dueMs + DAY_MS, { lists: [list(1)] }), [])
  const { nextUpdateMs: _none, ...endless } = list(1)
  assert.deepEqual(look(dueMs + DAY_MS, { lists: [endless] }), [
    { kind: 'revocation_list_replaced', listener: 'controller', issuer: 'CN=one', revoked: 1 },
  ])
  look(dueMs, { lists: [] })
  assert.deepEqual(noted(), {})
})
