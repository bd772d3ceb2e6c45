import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeHostKey } from './guest-ssh.ts'
import type { HostKeyJudgement } from './guest-ssh.ts'

type Case = readonly [string, string, string | undefined, string | undefined, HostKeyJudgement]

const cases: readonly Case[] = [
  ['the first key of a guest is new', 'A', undefined, undefined, 'new'],
  ['the pinned key is known', 'A', 'A', undefined, 'known'],
  ['another key than the pinned one has changed', 'B', 'A', undefined, 'changed'],
  ['a changed key that the viewer accepts is new', 'B', 'A', 'B', 'new'],
  ['the pinned key stays known where the viewer accepts it', 'A', 'A', 'A', 'known'],
  ['a viewer who accepts one key does not get another', 'C', 'A', 'B', 'changed'],
  ['not even the pinned one', 'A', 'A', 'B', 'changed'],
  ['nor the first one', 'A', undefined, 'B', 'changed'],
]
for (const [what, offered, pinned, accepted, judgement] of cases) {
  test(what, () => assert.equal(judgeHostKey({ offered, pinned, accepted }), judgement))
}
