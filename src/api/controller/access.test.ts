import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { expectedRoles } from '../../../test/daemon/support/expected-roles.ts'
import { describedApp } from '../../../tools/openapi-document.ts'
import { namedRoutes, rolesFor } from './access.ts'
import type { App } from '../listener/app.ts'

let app: App
before(async () => {
  app = await describedApp()
})

test('a route that does not say who may use it keeps the API from being made', () => {
  assert.throws(() => rolesFor('PUT', '/v1/vms/:id/new'), /PUT \/v1\/vms\/:id\/new is not in .*access\.ts/)
})

test('every route that the table names exists', () => {
  for (const name of namedRoutes) {
    const [method = '', url = ''] = name.split(' ')
    assert.ok(app.hasRoute({ method, url }), name)
  }
})

test('readers read, console clients get to their consoles, and only the controller changes anything', () => {
  for (const name of namedRoutes) {
    const [method = '', url = ''] = name.split(' ')
    assert.deepEqual(rolesFor(method, url), expectedRoles(name), name)
  }
})

test('the document says for each operation which roles may use it, and how others are refused', () => {
  const operations = Object.values(app.swagger().paths ?? {}).flatMap((methods): object[] =>
    Object.values(Object(methods)),
  )
  assert.ok(operations.length > 30)
  for (const operation of operations) {
    const roles: unknown = Reflect.get(operation, 'x-roles')
    assert.ok(Array.isArray(roles) && roles.includes('controller'), JSON.stringify(operation).slice(0, 100))
    assert.match(String(Reflect.get(operation, 'description')), /\n\nRoles: `controller`/)
    assert.match(JSON.stringify(Reflect.get(operation, 'responses')), /"role_required"/)
  }
})
