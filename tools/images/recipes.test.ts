import assert from 'node:assert/strict'
import { test } from 'node:test'
import { run } from '../process.ts'
import { blocksIn, readBlocks } from './blocks.ts'
import { recipesFrom } from './recipes.ts'

test('every recipe of the page is there, and a shell can read it', async () => {
  const { containerfile, ...scripts } = recipesFrom(readBlocks())
  assert.match(containerfile, /^FROM /)
  for (const [name, script] of Object.entries(scripts)) {
    const { code, stderr } = await run(['sh', '-n'], { input: script })
    assert.equal(code, 0, `${name}: ${stderr}`)
  }
  // debugfs, e2fsck and resize2fs are not in the PATH of a user who is not root.
  for (const recipe of [scripts.debian, scripts.ubuntu]) assert.match(recipe, /^PATH=\$PATH:\/usr\/sbin /)
  assert.match(scripts.ubuntu, /noble-server-cloudimg-amd64\.img/)
})

test('a block loses its own indentation and no more', () => {
  const page = '1. Do this:\n\n   <!-- tried: one -->\n   ```sh\n   if true; then\n     echo\n   fi\n   ```\n'
  assert.deepEqual([...blocksIn(page)], [['one', 'if true; then\n  echo\nfi\n']])
})

test('two blocks of one name are refused', () => {
  const block = '<!-- tried: one -->\n```sh\ntrue\n```\n'
  assert.throws(() => blocksIn(block + block), /two blocks are called one/)
})
