import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Listeners } from './listeners.ts'

test('listeners are called in the order in which they came, each as often as it was added', () => {
  const listeners = new Listeners<[text: string]>()
  const heard: string[] = []
  const first = (text: string): void => void heard.push(`first ${text}`)
  const removeOne = listeners.add(first)
  listeners.add((text) => heard.push(`second ${text}`))
  listeners.add(first)
  listeners.notify('a')
  removeOne()
  removeOne()
  listeners.notify('b')
  listeners.clear()
  listeners.notify('c')
  assert.deepEqual(heard, ['first a', 'second a', 'first a', 'second b', 'first b'])
})

test('a listener that another one removes is not called any more, and one that it adds is not called yet', () => {
  const listeners = new Listeners()
  const heard: string[] = []
  listeners.add(() => {
    remove()
    listeners.add(() => heard.push('added'))
  })
  const remove = listeners.add(() => heard.push('removed'))
  listeners.notify()
  assert.deepEqual(heard, [])
})
