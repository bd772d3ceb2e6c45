import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unitOfPath, unitPath } from './bus-names.ts'

test('a unit name is escaped into its object path, and read back', () => {
  for (const [name, path] of [
    ['vmhost-web-1.service', '/org/freedesktop/systemd1/unit/vmhost_2dweb_2d1_2eservice'],
    ['dbus.service', '/org/freedesktop/systemd1/unit/dbus_2eservice'],
    ['1a_b.service', '/org/freedesktop/systemd1/unit/_31a_5fb_2eservice'],
  ] as const) {
    assert.equal(unitPath(name), path)
    assert.equal(unitOfPath(path), name)
  }
})

test('the path of a job is not the path of a unit', () => {
  assert.equal(unitOfPath('/org/freedesktop/systemd1/job/7'), undefined)
})
