// Runs groups of the HTTP cache tests against a cache, and prints a line of JSON for each test. It lies
// in the folder of the npm package http-cache-tests.

import { runTests, getResults } from './client/runner.mjs'

const files = ['cc-freshness', 'cc-parse', 'expires-freshness', 'expires-parse', 'age-parse', 'update304',
  'conditional-etag', 'conditional-lm']
const groups = []
for (const file of files) {
  const { default: group } = await import(`./tests/${file}.mjs`)
  groups.push(group)
}

await runTests(groups, fetch, false, process.argv[2])

const results = getResults()
for (const group of groups) {
  for (const test of group.tests) {
    const result = results[test.id]
    if (result === undefined) continue // for browsers
    const why = result === true ? '' : result.join(': ')
    console.log(JSON.stringify({ group: group.id, id: test.id, kind: test.kind ?? 'required', why }))
  }
}
