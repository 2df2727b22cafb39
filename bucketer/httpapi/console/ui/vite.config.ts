import { createHash } from 'node:crypto';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

// Where `npm run dev` finds an API.
const api = process.env.CARILLON_API ?? 'http://127.0.0.1:8080';

// Browsers that know light-dark(). Stated, so that a newer Vite does not change what is built.
const browsers = ['chrome123', 'edge123', 'firefox124', 'safari17.5'];

// What is loaded later takes from app.js what both need, and may come from a node of another version:
// then names that are minified would be other things. So it asks app.js for a name that no other
// version has, and browsers refuse to load it where that is missing (parts/Later.tsx says so).
const ofOneVersion: Plugin = {
  name: 'of-one-version',
  enforce: 'post',
  generateBundle(_options, bundle) {
    const chunks = Object.values(bundle).filter((c) => c.type === 'chunk');
    const hash = createHash('sha256');
    for (const c of chunks.toSorted((a, b) => (a.fileName < b.fileName ? -1 : 1))) {
      hash.update(c.code);
    }
    const version = `of_${hash.digest('hex').slice(0, 12)}`;
    for (const c of chunks) {
      c.code = c.isEntry ? `${c.code.trimEnd()}\nexport const ${version}=1;\n` : `import{${version}}from"./app.js";${c.code}`;
    }
  },
};

// The names of what is built are stable and the files are committed: the server's ETags, not names,
// tell browsers what has changed. All addresses are relative, for a proxy with a sub-path.
export default defineConfig({
  base: './',
  plugins: [ofOneVersion],
  // The classic calls are shorter than those with children among the properties.
  oxc: {
    jsx: { runtime: 'classic', pragma: 'jsxElement', pragmaFrag: 'JsxFragment' },
    jsxInject: "import { h as jsxElement, Fragment as JsxFragment } from 'preact';",
  },
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    sourcemap: false,
    target: browsers,
    cssTarget: browsers,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    rolldownOptions: {
      output: {
        entryFileNames: 'app.js',
        chunkFileNames: '[name].js',
        assetFileNames: 'app[extname]',
      },
    },
  },
  server: { proxy: { '/v1': api, '/openapi.json': api, '/readyz': api } },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
});
