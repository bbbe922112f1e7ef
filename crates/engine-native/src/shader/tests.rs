//! Sources that are refused, and what small ones compute.

use super::*;
use crate::NodeContext;

/// The first pixel of what `main` draws, with helper functions before it.
fn drawn(before: &str, main: &str) -> [f32; 4] {
    let source = format!(
        "#version 300 es\nprecision highp float;\nout vec4 c;\n{before}\nvoid main() {{ {main} }}"
    );
    let program = Program::new(&source).unwrap_or_else(|wrong| panic!("{wrong}\n{source}"));
    let run = Run {
        program: &program,
        uniforms: &[],
        textures: &[],
        size: (3, 2),
        outputs: 1,
        most_steps: MOST_STEPS,
    };
    let frames = run
        .render(&NodeContext::detached())
        .unwrap_or_else(|error| panic!("{error:?}\n{source}"));
    let pixel = &frames[0].row(1)[..4];
    [pixel[0], pixel[1], pixel[2], pixel[3]]
}

#[track_caller]
fn check(before: &str, main: &str, expected: [f32; 4]) {
    assert_eq!(drawn(before, main), expected, "{main}");
}

#[test]
fn operators_work_on_components() {
    check(
        "",
        "c = vec4(1.0, 2.0, 3.0, 4.0) * 2.0;",
        [2.0, 4.0, 6.0, 8.0],
    );
    check(
        "",
        "c = vec4(vec2(5.0, 7.0).yx, 7 / 2, 7 % 4);",
        [7.0, 5.0, 3.0, 3.0],
    );
    check(
        "",
        "c = vec4(1u << 3u, -8 >> 1, 6 & 3, 6 ^ 3);",
        [8.0, -4.0, 2.0, 5.0],
    );
    check(
        "",
        "c = vec4(true && false, true ^^ false, 2.0 < 3.0, vec2(1.0) == vec2(1.0));",
        [0.0, 1.0, 1.0, 1.0],
    );
    check(
        "",
        "mat2 m = mat2(1.0, 2.0, 3.0, 4.0); c = vec4(m * vec2(1.0, 1.0), vec2(1.0, 1.0) * m);",
        [4.0, 6.0, 3.0, 7.0],
    );
    check(
        "",
        "mat3 m = inverse(mat3(2.0)); c = vec4(m[0].x, m[1].y, determinant(mat3(2.0)), transpose(m)[2].z);",
        [0.5, 0.5, 8.0, 0.5],
    );
}

#[test]
fn variables_are_assigned_by_parts_and_by_index() {
    check(
        "",
        "c = vec4(0.0); c.zy = vec2(1.0, 2.0); c.x += 3.0;",
        [3.0, 2.0, 1.0, 0.0],
    );
    check(
        "",
        "vec2 a = vec2(1.0, 2.0); a = a.yx; c = a.xyxy;",
        [2.0, 1.0, 2.0, 1.0],
    );
    check(
        "",
        "float a[3] = float[](1.0, 2.0, 3.0); int i = int(gl_FragCoord.x + 0.5); a[i] = 9.0; c = vec4(a[0], a[1], a[i], a.length());",
        [1.0, 9.0, 9.0, 3.0],
    );
    check(
        "struct S { float a; vec2 b[2]; };",
        "S s; int i = int(gl_FragCoord.x + 0.5); s.b[i].y = 4.0; S t = s; c = vec4(t.a, t.b[0].y, t.b[1].y, s == t);",
        [0.0, 0.0, 4.0, 1.0],
    );
    check(
        "",
        "int i = 1; int j = i++ + i; c = vec4(i, j, ++i, i--);",
        [2.0, 3.0, 3.0, 3.0],
    );
}

#[test]
fn branches_and_loops_go_by_pixel() {
    check(
        "",
        "float s = 0.0; for (int i = 0; i < 10; i++) { if (i == 2) continue; if (i > 4) break; s += float(i); } c = vec4(s);",
        [8.0; 4],
    );
    check(
        "",
        "int i = 0; do { i++; } while (i < 5); while (true) { if (i-- < 2) break; } c = vec4(i);",
        [0.0; 4],
    );
    check(
        "",
        "c = vec4(0.0); switch (int(gl_FragCoord.x)) { case 0: c.x = 1.0; case 1: c.y = 1.0; break; default: c.z = 1.0; }",
        [1.0, 1.0, 0.0, 0.0],
    );
    check(
        "",
        "for (int i = 0; i < 4; i++) { switch (i) { case 1: continue; default: break; } c.x += 1.0; }",
        [3.0, 0.0, 0.0, 0.0],
    );
    check(
        "",
        "if (gl_FragCoord.x < 1.0) { c = vec4(0.5); return; } c = vec4(0.7);",
        [0.5; 4],
    );
    check(
        "",
        "c = vec4(1.0); if (gl_FragCoord.x < 1.0) discard;",
        [0.0; 4],
    );
    check(
        "",
        "int i = 0; bool b = false && i++ == 0; b = true || i++ == 0; c = vec4(i);",
        [0.0; 4],
    );
    check(
        "",
        "int i = 0; float f = true ? 1.0 : float(i++); c = vec4(f, i, 0, 0);",
        [1.0, 0.0, 0.0, 0.0],
    );
}

#[test]
fn functions_take_and_give_values() {
    check(
        "float f(float a) { return a * 2.0; } vec2 f(vec2 a) { return a.yx; }",
        "c = vec4(f(1.0), f(vec2(1.0, 2.0)), f(f(1.5)));",
        [2.0, 2.0, 1.0, 6.0],
    );
    check(
        "void f(inout float a, out float b) { a += 1.0; b = a; }",
        "float a = 1.0; c = vec4(0.0); f(a, c.y); c.x = a;",
        [2.0, 2.0, 0.0, 0.0],
    );
    check(
        "float f(int n); float g(int n) { return f(n) + 1.0; } float f(int n) { for (int i = 0; i < 9; i++) if (i == n) return float(i); return -1.0; }",
        "c = vec4(g(3), g(20), f(8), 0.0);",
        [4.0, 0.0, 8.0, 0.0],
    );
    check(
        "void f(out float a) {} float g() { float a = 9.0; return a; } float h(const float a) { return a; } void h(inout int a) {}",
        "const float d = 3.0; c = vec4(g(), 5.0, h(d), 0.0); f(c.y);",
        [9.0, 0.0, 3.0, 0.0],
    );
    check(
        "float n = 1.0; float f() { n += 1.0; return n; }",
        "c = vec4(n + f(), f(), n, 0.0);",
        [3.0, 3.0, 3.0, 0.0],
    );
}

#[test]
fn functions_of_the_language_compute() {
    check(
        "",
        "c = vec4(clamp(2.0, 0.0, 1.0), mix(1.0, 3.0, 0.5), step(0.5, 0.4), smoothstep(0.0, 2.0, 1.0));",
        [1.0, 2.0, 0.0, 0.5],
    );
    check(
        "",
        "c = vec4(length(vec2(3.0, 4.0)), dot(vec3(1.0), vec3(2.0)), mod(-1.0, 3.0), fract(1.25));",
        [5.0, 6.0, 2.0, 0.25],
    );
    check(
        "",
        "c = vec4(cross(vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0)), sign(-2.0));",
        [0.0, 0.0, 1.0, -1.0],
    );
    check(
        "",
        "c = vec4(any(lessThan(vec2(1.0, 2.0), vec2(1.0))), all(bvec2(true)), floatBitsToInt(0.0), abs(-3));",
        [0.0, 1.0, 0.0, 3.0],
    );
    check(
        "",
        "c = vec4(dFdx(gl_FragCoord.x * 2.0), dFdy(gl_FragCoord.y * 3.0), fwidth(gl_FragCoord.x), pow(2.0, 3.0));",
        [2.0, 3.0, 1.0, 8.0],
    );
}

#[test]
fn macros_are_replaced() {
    check(
        "#define TWO 2.0\n#define MAX(a, b) ((a) > (b) ? (a) : (b))",
        "c = vec4(TWO, MAX(1.0,\n 3.0), __VERSION__, 0.0);",
        [2.0, 3.0, 300.0, 0.0],
    );
    check(
        "#define MAX(a, b) ((a) > (b) ? (a) : (b))",
        "c = vec4(MAX(MAX(1.0, 2.0), 3.0), MAX(4.0, MAX(MAX(5.0, 6.0), 2.0)), 0.0, 0.0);",
        [3.0, 6.0, 0.0, 0.0],
    );
    // A macro that names itself is replaced once, in an argument as well.
    check(
        "float n = 1.0;\n#define n n + 1.0\n#define SAME(a) a",
        "c = vec4(n, SAME(n), SAME(SAME(n)), 0.0);",
        [2.0, 2.0, 2.0, 0.0],
    );
    check(
        "#if defined(X) && X > 1\n#error no\n#endif\n#if !defined(X) || X > 1\n#define N 1.0\n#endif",
        "c = vec4(N);",
        [1.0; 4],
    );
    check(
        "#define A\n#if defined(A) && 1 + 1 == 2\n#define N 1.0\n#elif 1\n#define N 2.0\n#else\n#error no\n#endif\n#ifdef B\n??\n#endif",
        "c = vec4(N);",
        [1.0; 4],
    );
}

fn refused(source: &str) -> String {
    Program::new(source).expect_err("it is wrong").to_string()
}

#[test]
fn a_source_that_cannot_run_says_where_and_why() {
    assert!(refused("void main() {}").contains("#version 300 es"));
    let of = |main: &str| {
        refused(&format!(
            "#version 300 es\nout vec4 c;\nvoid main() {{\n{main}\n}}"
        ))
    };
    for (main, words) in [
        (
            "c = vec4(1.0) * 2;",
            "line 4: '*' does not work on vec4 and int",
        ),
        ("c = vec4(x);", "line 4: 'x' is not declared"),
        ("c = foo(1.0);", "there is no function 'foo(float)'"),
        ("c = vec4(1.0)", "line 5: ';' is expected"),
        ("c.q = 1", "line 5: ';' is expected"),
        ("float f = 1;", "'f' is float, and its value is int"),
        ("const float f = 1.0; f = 2.0;", "cannot be assigned to"),
        ("c.xx = vec2(1.0);", "cannot be assigned to"),
        ("float a[2]; c.x = a[2];", "the index must be one of 0 to 1"),
        ("break;", "nothing around this 'break'"),
        ("float a[9000];", "smaller arrays"),
        (
            "c = vec4(1.0, 2.0);",
            "vec4 cannot be made of (float, float)",
        ),
        ("if (1) {}", "a condition must be bool, and this is int"),
        ("c = @;", "the character '@'"),
        ("float f; int f;", "line 4: 'f' is declared twice"),
        ("return 1;", "the function returns void, but this is int"),
        ("float[2] a[2];", "no arrays of arrays"),
        ("float a[int(1, 2)];", "a constant whole number"),
    ] {
        let said = of(main);
        assert!(said.contains(words), "{main}: {said}");
    }
    let recursive = "#version 300 es\nfloat f() { return f(); }\nvoid main() { f(); }";
    assert!(refused(recursive).contains("calls itself"));
    for (globals, words) in [
        ("float n;\nuniform int n;", "line 3: 'n' is declared twice"),
        (
            "float f();\nfloat b = f();",
            "'f' is declared but has no body",
        ),
        (
            "float f(float a, int a) { return a; }\nfloat b = f(1.0, 1);",
            "'a' is declared twice",
        ),
        (
            "float f(inout float a) { return a; }\nfloat b = f(1.0);",
            "argument 1 of 'f' must be a variable",
        ),
        (
            "struct S { float a; };\nstruct S { int a; };",
            "line 3: 'S' is declared twice",
        ),
        ("struct S { float a; int a; };", "'a' is declared twice"),
        (
            "struct S { float a; sampler2D b; };",
            "'b' of 'S' cannot be of the type sampler2D",
        ),
        ("struct S {};", "'S' needs a field"),
        ("sampler2D f();", "a type that is not allowed"),
    ] {
        let said = refused(&format!("#version 300 es\n{globals}\nvoid main() {{}}"));
        assert!(said.contains(words), "{globals}: {said}");
    }
    assert!(refused("#version 300 es\nin vec3 normal;\nvoid main() {}").contains("v_texCoord"));
    assert!(refused("#version 300 es\nfloat f() { return 1.0; }").contains("void main()"));
}

#[test]
fn nothing_of_a_source_is_unbounded() {
    let whole = |text: &str| format!("#version 300 es\nvoid main() {{ {text} }}");
    let deep = whole(&format!(
        "float f = {}1.0{};",
        "(".repeat(500),
        ")".repeat(500)
    ));
    assert!(refused(&deep).contains("levels of brackets"));
    let long = whole(&format!("float f = 1.0{};", " + 1.0".repeat(500)));
    assert!(refused(&long).contains("store a part in a variable"));
    let blocks = whole(&format!("{}{}", "{".repeat(500), "}".repeat(500)));
    assert!(refused(&blocks).contains("levels of brackets"));
    let mut laughs = "#version 300 es\n#define a0 1.0\n".to_owned();
    for n in 1..30 {
        let before = n - 1;
        laughs += &format!("#define a{n} a{before} + a{before}\n");
    }
    assert!(refused(&(laughs + "float f = a29;")).contains("tokens"));
    let mut doubles = "#version 300 es\n#define d(x) x x x x x x x x\n".to_owned();
    doubles += &format!("{}1{}", "d(".repeat(20), ")".repeat(20));
    assert!(refused(&doubles).contains("tokens"));
    // Names that are looked up in many scopes are work, also where nothing is emitted for them.
    let mut looks = "#version 300 es\nconst int a = 0;\nvoid main() { vec4 v; ".to_owned();
    looks += &"{ int b; ".repeat(50);
    looks += &format!("v[a{}]; ", "+a".repeat(90)).repeat(340);
    looks += &"}".repeat(51);
    assert!(refused(&looks).contains("too much work"));
    let mut chosen = "#version 300 es\nvoid main() { bool b; float a[700]; ".to_owned();
    chosen += &format!("{}(a[0] = 1.0, a); ", "b?a:".repeat(10)).repeat(900);
    assert!(refused(&(chosen + "}")).contains("too many operations"));
    // Parts of a macro that come to nothing are work, too.
    let mut nothing = "#version 300 es\n#define m(a)".to_owned() + &" a".repeat(15_000) + "\n";
    nothing += &"m()".repeat(10_000);
    assert!(refused(&nothing).contains("tokens"));
    let mut nested = "#version 300 es\n#define a0 1.0\n".to_owned();
    for n in 1..40 {
        nested += &format!("#define a{n} (a{})\n", n - 1);
    }
    assert!(refused(&(nested + "float f = a39;")).contains("more than 32 deep"));
    let calls = format!("{}q{}", "f(".repeat(55), ")".repeat(55));
    let calls = format!(
        "#version 300 es\nfloat f(inout float x) {{ return x; }}\nvoid main() {{ {calls}; }}"
    );
    assert!(refused(&calls).contains("'q' is not declared"));
    // All names share the length, and it is counted for each.
    let shared = format!(
        "float a[int(1{})]{};",
        ", 1".repeat(5_000),
        ", a".repeat(5_000)
    );
    assert!(refused(&whole(&shared)).contains("a constant whole number"));
    let mut length = "1".to_owned();
    for _ in 0..12 {
        length = format!("({length}*{length})");
    }
    let names: Vec<String> = (0..4_000).map(|n| format!("a{n}")).collect();
    let shared = whole(&format!("float[{length}] {};", names.join(",")));
    assert!(refused(&shared).contains("too much work"));
    let name = whole(&format!("float {};", "a".repeat(1_025)));
    assert!(refused(&name).contains("longer than 1024 characters"));
    let parameters = format!("void f(S a{}) {{}}", ", S".repeat(2_000));
    let parameters = format!("#version 300 es\nstruct S {{ float a[8000]; }};\n{parameters}");
    assert!(refused(&parameters).contains("smaller arrays"));
    // Each argument is an array of its own while the others are lowered.
    let arrays = format!("float a[8000]; f(a{});", ",a".repeat(20_000));
    assert!(refused(&whole(&arrays)).contains("too much work"));
    assert!(
        refused(&format!("#version 300 es\n{}", " ".repeat(MOST_SOURCE))).contains("longer than")
    );
}

#[test]
fn a_long_chain_of_calls_is_refused() {
    let chain = |count: usize| {
        let mut source = "#version 300 es\nout vec4 c;\nfloat f0() { return 1.0; }\n".to_owned();
        for n in 1..count {
            source += &format!("float f{n}() {{ if (true) {{ return f{}(); }} }}\n", n - 1);
        }
        source + &format!("void main() {{ c = vec4(f{}()); }}", count - 1)
    };
    assert!(refused(&chain(240)).contains("too deeply"));
    assert!(Program::new(&chain(20)).is_ok());
    // Lowered from its end, no function is lowered inside of another one.
    let warm: String = (0..240)
        .map(|n| format!("float g{n} = f{n}();\n"))
        .collect();
    let source = chain(240).replace("void main()", &(warm + "void main()"));
    assert!(refused(&source).contains("too deeply"));
}

#[test]
fn a_loop_without_an_end_is_stopped() {
    let source = "#version 300 es\nout vec4 c;\nvoid main() { while (true) {} }";
    let program = Program::new(source).unwrap_or_else(|wrong| panic!("{wrong}"));
    let run = Run {
        program: &program,
        uniforms: &[],
        textures: &[],
        size: (1, 1),
        outputs: 1,
        most_steps: MOST_STEPS,
    };
    let error = run
        .render(&NodeContext::detached())
        .expect_err("it has no end");
    assert!(format!("{error:?}").contains("loops shorter"), "{error:?}");
}

#[test]
fn structures_stand_in_one_another_to_a_limit() {
    let nested = |count: usize| {
        let mut source = "#version 300 es\nstruct s1 { float a; };\n".to_owned();
        for n in 2..=count {
            source += &format!("struct s{n} {{ s{} a; }};\n", n - 1);
        }
        source + "void main() {}"
    };
    assert!(Program::new(&nested(32)).is_ok());
    assert!(refused(&nested(33)).contains("more than 32 deep"));
}

#[test]
fn parts_of_what_functions_return_count_as_depth() {
    let mut source = "#version 300 es\nfloat f0() { return 1.0; }\n".to_owned();
    for n in 1..100 {
        let parts = ".x".repeat(80);
        source += &format!("float f{n}() {{ return f{}(){parts}; }}\n", n - 1);
    }
    source += "void main() { f99(); }";
    assert!(refused(&source).contains("too deeply"));
}

/// Every group begins with registers of its own, whatever its thread drew before.
#[test]
fn an_array_has_an_element() {
    for index in ["0", "i"] {
        let body = format!("int i; float x = float[]()[{index}];");
        let source = format!("#version 300 es\nvoid main() {{ {body} }}");
        assert!(refused(&source).contains("an array needs a length"));
    }
}

#[test]
fn what_a_pixel_without_a_part_has_is_not_of_the_group_before() {
    // In the second group every other pixel goes before its variable has a value.
    let source = "#version 300 es\nout vec4 c;\nfloat f() {\n\
        if (gl_FragCoord.x > 32.0 && mod(floor(gl_FragCoord.x), 2.0) == 1.0) discard;\nreturn 1.0;\n}\n\
        float h = f();\nfloat g = 1.0;\n\
        void main() { c = vec4(dFdx(g), 0.0, 0.0, 1.0); }";
    let program = Program::new(source).unwrap_or_else(|wrong| panic!("{wrong}"));
    let run = Run {
        program: &program,
        uniforms: &[],
        textures: &[],
        size: (64, 2),
        outputs: 1,
        most_steps: MOST_STEPS,
    };
    let frames = run
        .render(&NodeContext::detached())
        .unwrap_or_else(|error| panic!("{error:?}"));
    for row in 0..2 {
        assert_eq!(frames[0].row(row)[0], 0.0);
        assert_eq!(frames[0].row(row)[32 * 4], -1.0);
    }
}

#[test]
fn a_group_of_pixels_knows_nothing_of_another() {
    let source = "#version 300 es\nout vec4 c;\nfloat n;\nvoid main() {\n\
        n += 1.0;\nc = vec4(n, 0.0, 0.0, 1.0);\n\
        if (gl_FragCoord.x < 31.0 || gl_FragCoord.x > 33.0) { float v = 5.0; c.y = dFdx(v); }\n}";
    let program = Program::new(source).unwrap_or_else(|wrong| panic!("{wrong}"));
    let run = Run {
        program: &program,
        uniforms: &[],
        textures: &[],
        size: (100, 6),
        outputs: 1,
        most_steps: MOST_STEPS,
    };
    let frames = run
        .render(&NodeContext::detached())
        .unwrap_or_else(|error| panic!("{error:?}"));
    for row in 0..6 {
        let row = frames[0].row(row);
        assert!(row.chunks(4).all(|pixel| pixel[0] == 1.0), "{row:?}");
        assert_eq!(row[33 * 4 + 1], 5.0, "its neighbour took no part");
    }
}
