import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recipeForThisMachine } from './recipe.ts'

test('any Debian builds a Debian 13 lab', () => {
  const recipe = recipeForThisMachine('PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\n')
  assert.equal(recipe.suite, 'trixie')
  assert.equal(recipe.origin, 'Debian')
})

test('Ubuntu and what is like it builds an Ubuntu 24.04 lab', () => {
  assert.equal(recipeForThisMachine('ID=ubuntu\nID_LIKE=debian\n').suite, 'noble')
  assert.equal(recipeForThisMachine('ID=linuxmint\nID_LIKE="ubuntu debian"\n').suite, 'noble')
})

test('any other machine is refused, because a lab cannot be built there', () => {
  assert.throws(() => recipeForThisMachine('ID=fedora\n'), /Debian and Ubuntu/)
})
